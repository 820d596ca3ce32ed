// The words that were learned from the person: shows them, deletes them, saves them to a file and learns from one. What
// is read from a file goes to the agent on this device, which keeps of it what it would keep of sent messages.

import { ask } from "./agent.js";
import { chosen } from "./settings.js";

const MOST_LINES = 200; // of a request, and its size: the agent takes no more
const MOST_BYTES = 24_000;
// A longer line is cut between two words, if it has any.
const LINES = /.{1,2000}(?=\s|$)|.{1,2000}/gu;

const element = (id) => document.getElementById(id);

export class Words {
  #tell;
  #onChange;
  #shown = "";

  constructor(tell, onChange) {
    this.#tell = tell;
    this.#onChange = onChange;
    element("words").addEventListener("toggle", () => this.refresh().catch((error) => tell(error.message)));
    element("import").addEventListener("click", () => element("import-file").click());
    element("import-file").addEventListener("change", () => this.#import().catch((error) => tell(error.message)));
    element("export").addEventListener("click", () => this.#export().catch((error) => tell(error.message)));
  }

  async refresh() {
    if (!element("words").open) return;
    const words = await ask("/api/words");
    const shown = JSON.stringify(words);
    if (shown === this.#shown) return; // a list that is drawn anew loses the focus
    this.#shown = shown;
    element("words-none").hidden = words.length > 0;
    element("words-list").replaceChildren(...words.map(([word, count]) => this.#line(word, count)));
  }

  #line(word, count) {
    const line = document.createElement("li");
    const text = document.createElement("span");
    text.textContent = word;
    const times = document.createElement("span");
    times.className = "quiet";
    times.textContent = count === 1 ? "once" : `${count} times`;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Delete";
    button.setAttribute("aria-label", `Delete ${word}`);
    button.addEventListener("click", () => this.#forget(word).catch((error) => this.#tell(error.message)));
    line.append(text, times, button);
    return line;
  }

  async #forget(word) {
    await ask("/api/forget", { word });
    this.#tell(`“${word}” was deleted from the words that are suggested.`);
    this.#onChange();
    await this.refresh();
  }

  async #export() {
    const words = await ask("/api/words");
    const address = URL.createObjectURL(new Blob([words.map(([word]) => `${word}\n`).join("")], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "nightjar-words.txt";
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  async #import() {
    const [file] = element("import-file").files;
    if (file === undefined) return;
    const bytes = new Uint8Array(await file.arrayBuffer());
    element("import-file").value = ""; // so that the same file may be chosen again, also after a fault
    let kept = 0;
    let read = 0;
    const text = decoded(bytes, chosen().language);
    if (!isText(text)) throw new Error("Expected a text file, got another kind: save it as plain text first.");
    for (const lines of batches(text)) {
      kept += (await ask("/api/import", { lines })).kept;
      read += lines.length;
      this.#tell(`Learning: ${read} lines…`);
    }
    const rest = read - kept;
    this.#tell(`Learned from ${kept} lines.${rest > 0 ? ` ${rest} look private or have no words, and were left out.` : ""}`);
    this.#onChange();
    await this.refresh();
  }
}

const LOW = 9; // below a tabulator
const LEAST_LOW = 0.1; // of a file

// The text of a file, whose encoding nobody says: UTF-8 or UTF-16, or what older programs write in the language.
function decoded(bytes, language) {
  const [first, second] = bytes;
  // Of text, only UTF-16 has many bytes so low: one in each Latin, Greek or Cyrillic letter, space and line feed. A few
  // are damage.
  const low = [0, 0];
  bytes.forEach((byte, at) => { low[at % 2] += byte < LOW ? 1 : 0; });
  const wide = low[0] + low[1] > bytes.length * LEAST_LOW;
  if ((first === 0xff && second === 0xfe) || (wide && low[1] > low[0])) return new TextDecoder("utf-16le").decode(bytes);
  if ((first === 0xfe && second === 0xff) || wide) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder(["ru", "uk"].includes(language) ? "windows-1251" : "windows-1252").decode(bytes);
  }
}

const CONTROL = /[\0-\x08\x0e-\x1f]/g;
const FEW_CONTROLS = 8; // are damage

// Whether what was decoded is text: of pictures, archives and documents of word processors, letters would be learned.
function isText(text) {
  const controls = text.match(CONTROL)?.length ?? 0;
  return controls <= FEW_CONTROLS || controls < text.length / 50;
}

// The lines of a text that have something in them, in lists that a request may have.
function* batches(text) {
  let lines = [];
  let bytes = 0;
  for (const whole of text.split(/\r?\n/)) {
    for (const line of whole.match(LINES) ?? []) {
      if (line.trim() === "") continue;
      const size = new TextEncoder().encode(JSON.stringify(line)).length + 1;
      if (lines.length > 0 && (lines.length === MOST_LINES || bytes + size > MOST_BYTES)) {
        yield lines;
        [lines, bytes] = [[], 0];
      }
      lines.push(line);
      bytes += size;
    }
  }
  if (lines.length > 0) yield lines;
}
