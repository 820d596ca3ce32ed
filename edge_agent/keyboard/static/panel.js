// What happens here, in plain words: what is kept, what the agent does, what it sent, how good the model is. Looks every
// few seconds while the page is visible, and changes only what is new, so that a screen reader is not disturbed.

import { ask } from "./agent.js";
import { showComparison } from "./comparison.js";
import { forgetRecentEmoji } from "./emoji.js";
import { LANGUAGES, LAYOUTS } from "./layouts.js";
import { choose, chosen } from "./settings.js";
import { Words } from "./words.js";

const LOOK_EVERY_MS = 3000;

const DOING = {
  ineligible: "Not training now",
  settling: "Waiting a little, to be sure that the device stays idle",
  "checked-in": "Ready; waiting to be chosen for a round",
  preparing: "Chosen; fetching the model",
  training: "Training on the messages kept here",
  reporting: "Sending its update",
  resting: "Resting until it is asked to come back",
};

const element = (id) => document.getElementById(id);
const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const counted = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;
const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;

function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 999950 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function set(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text;
}

export class Panel {
  #onVersion;
  #onWipe;
  #drawn = "";
  #words;

  // onVersion is called with the version of the model at every look.
  constructor(onVersion, onWipe) {
    this.#onVersion = onVersion;
    this.#onWipe = onWipe;
    this.#offerSettings();
    this.#words = new Words((text) => this.#tell(text), () => this.refresh());
    element("pause").addEventListener("change", () => this.#pause(element("pause").checked));
    element("wipe").addEventListener("click", () => element("sure").showModal());
    element("comparison").addEventListener("toggle", () => element("comparison").open && showComparison());
    element("sure").addEventListener("close", () => element("sure").returnValue === "delete" && this.#wipe());
    this.refresh();
    setInterval(() => document.hidden || this.refresh(), LOOK_EVERY_MS);
  }

  async refresh() {
    let about;
    try {
      about = await ask("/api/about");
    } catch (error) {
      set("state", error.message);
      set("reason", "");
      return;
    }
    const trained = about.last_trained_at_s;
    const report = about.last_report_bytes;
    set("device", about.device);
    set("version", about.version === null ? "none yet" : `version ${about.version}`);
    set("state", about.paused ? "Learning is paused" : DOING[about.state] ?? about.state);
    set("reason", about.paused || !about.reason ? "" : `(${about.reason})`);
    set("stored", `${counted(about.stored, "message")}, ${size(about.stored_bytes)}`);
    const programs = Object.entries(about.by_program).sort(([, one], [, other]) => other - one);
    set("by-program", programs.map(([name, count]) => `${name}: ${counted(count, "message")}`).join(", ") || "nothing");
    set("own-words", counted(about.own_words, "word"));
    set("last-trained", trained === null ? "not yet" : WHEN.format(trained * 1000));
    set("last-report", report === null ? "none yet" : size(report));
    set("who-learns", report === null ? "" : about.last_report_summed
      ? "The coordinator could not read your last one: it learns only the sum of those of many devices."
      : "The coordinator can read yours.");
    set("bytes-sent", `${size(about.bytes_sent)} in ${counted(about.reports_sent, "report")}`);
    element("pause").checked = about.paused;
    await this.#words.refresh(about.own_words).catch(() => {}); // as below
    for (const label of document.querySelectorAll("[data-emulated]")) label.hidden = !about.emulated;
    this.#onVersion(about.version);
    await this.#draw(about.foreseen).catch(() => {}); // the agent left in between; the next look draws it
  }

  async #draw({ words, top1, top3 }) {
    element("good").hidden = words === 0;
    element("good-yet").hidden = words !== 0;
    const said = words === 0 ? "" : `Of the last ${counted(words, "word")} that you sent, ${percent(top3, words)} stood `
      + `among the three suggestions before you typed a letter, ${percent(top1, words)} in first place.`;
    if (said === this.#drawn) return;
    set("good-words", said);
    if (words !== 0) {
      const svg = new DOMParser().parseFromString(await ask("/api/recall.svg"), "image/svg+xml").documentElement;
      element("chart").replaceChildren(document.importNode(svg, true));
    }
    this.#drawn = said;
  }

  async #pause(paused) {
    try {
      await ask("/api/learning", { paused });
      this.#tell(paused ? "Learning is paused: nothing new is kept, nothing is trained." : "Learning goes on.");
    } catch (error) {
      this.#tell(error.message);
    }
    await this.refresh();
  }

  async #wipe() {
    try {
      await ask("/api/wipe", { everything: "delete" });
      element("bubbles").replaceChildren();
      forgetRecentEmoji();
      this.#onWipe();
      element("hint").hidden = false;
      this.#tell("Everything was deleted from this device.");
    } catch (error) {
      this.#tell(`Nothing was deleted. ${error.message}`);
    }
    await this.refresh();
  }

  #tell(text) {
    element("told").textContent = text;
  }

  #offerSettings() {
    const offer = (id, options, setting) => {
      for (const [value, { name }] of Object.entries(options)) element(id).append(new Option(name, value));
      element(id).value = chosen()[setting];
      element(id).addEventListener("change", () => {
        const value = element(id).value;
        // Whoever changes the language most likely wants its keys; who does not, changes them back.
        choose(setting === "language" ? { language: value, layout: LANGUAGES[value].layout } : { [setting]: value });
        element("layout").value = chosen().layout;
      });
    };
    offer("language", LANGUAGES, "language");
    offer("layout", LAYOUTS, "layout");
    for (const [id, setting] of [["space-takes", "spaceTakes"], ["slurs", "slurs"]]) {
      element(id).checked = chosen()[setting];
      element(id).addEventListener("change", () => choose({ [setting]: element(id).checked }));
    }
  }
}
