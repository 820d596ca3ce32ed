// The words that were learned from the person: shows them, deletes them, saves them to a file and learns from one. What
// is read from a file goes to the agent on this device, which keeps of it what it would keep of sent messages.

import { ask } from "./agent.js";

const MOST_LINES = 200; // of a request, and its size: the agent takes no more
const MOST_BYTES = 24_000;
const LONGEST_LINE = 2_000;

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
    let kept = 0;
    let read = 0;
    for (const lines of batches(await file.text())) {
      kept += (await ask("/api/import", { lines })).kept;
      read += lines.length;
      this.#tell(`Learning: ${read} lines…`);
    }
    element("import-file").value = "";
    const rest = read - kept;
    this.#tell(`Learned from ${kept} lines.${rest > 0 ? ` ${rest} look private or have no words, and were left out.` : ""}`);
    this.#onChange();
    await this.refresh();
  }
}

// The lines of a text that have something in them, in lists that a request may have.
function* batches(text) {
  let lines = [];
  let bytes = 0;
  for (const whole of text.split(/\r?\n/)) {
    for (const line of whole.match(new RegExp(`.{1,${LONGEST_LINE}}`, "gu")) ?? []) {
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
