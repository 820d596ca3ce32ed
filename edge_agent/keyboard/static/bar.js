// The three suggestions: asks for them, shows them, and says which one a space would take. One question at a time; when
// the text has moved on meanwhile, the next question is about the newest text. So an old answer never overwrites a newer
// one, and a fast typist does not queue up questions.

import { ask } from "./agent.js";
import { capital } from "./text.js";
import { chosen } from "./settings.js";

const ANNOUNCE_AFTER_MS = 1200; // a screen reader hears the suggestions when the typing rests, not at every key
const ALWAYS_CAPITAL = /^i(['’]|$)/; // I, I'm, I'll: models know lower case only
const UNFINISHED = /[\p{L}\p{N}\p{M}'’]+$/u;
const NOTHING = { suggestions: [], prefix: "", space_takes: false, version: null, reason: "" };

// A suggested word as it is written in the text.
export function written(word, atStart) {
  const { language } = chosen();
  return atStart || (language === "en" && ALWAYS_CAPITAL.test(word)) ? capital(word, language) : word;
}

export class Bar {
  #slots;
  #spoken;
  #onAnswer;
  #wanted = null; // text to ask about next
  #latest = null;
  #asking = false;
  #dismissals = 0; // an answer to a question from before the last one is not wanted any more
  #shown = NOTHING;
  #about = null; // the text that `shown` is about; null once dismissed
  #capital = false;
  #seen = new Map(); // words that were ever suggested here, and how often
  #left = new Set(); // words that the person wants as they were typed
  #timer;

  constructor(slots, spoken, onAnswer) {
    this.#slots = slots;
    this.#spoken = spoken;
    this.#onAnswer = onAnswer;
  }

  get version() {
    return this.#shown.version;
  }

  // The text that was asked about last, answered or not.
  get latest() {
    return this.#latest;
  }

  get empty() {
    return this.#shown.suggestions.length === 0;
  }

  // Next words are written with a capital at the beginning of a sentence.
  set capital(on) {
    this.#capital = on;
    this.#render();
  }

  async refresh(text) {
    this.#wanted = this.#latest = text;
    if (this.#asking) return;
    this.#busy(true);
    while (this.#wanted !== null) {
      const about = this.#wanted;
      const dismissals = this.#dismissals;
      this.#wanted = null;
      let answer = NOTHING;
      let fault = null;
      try {
        const { language, slurs } = chosen();
        answer = await ask("/api/suggest", { text: about, language, slurs });
      } catch (error) {
        fault = error;
        answer = this.#withoutAgent(about);
      }
      if (dismissals === this.#dismissals) this.#show(answer, about, fault);
    }
    this.#busy(false);
  }

  // What is shown may be about an earlier text until the answer comes; the page says so to whoever cannot see it.
  #busy(asking) {
    this.#asking = asking;
    this.#slots[0].parentElement.setAttribute("aria-busy", String(asking));
  }

  dismiss(text) {
    this.offer([], "", text);
  }

  // Shows these words, which replace `prefix`, until the text is another.
  offer(suggestions, prefix, text) {
    this.#wanted = null;
    this.#latest = text;
    this.#dismissals += 1;
    this.#show({ ...NOTHING, suggestions, prefix, version: this.#shown.version }, text, null);
  }

  // The person went back on a change: this word is left alone from now on.
  leave(prefix) {
    this.#left.add(prefix.toLowerCase());
    this.#render();
  }

  leaves(word) {
    return this.#left.has(word.toLowerCase());
  }

  // The person wants a word offered no more.
  async forget(place) {
    const word = this.#shown.suggestions[place];
    if (word === undefined) return "";
    await ask("/api/forget", { word });
    this.#seen.delete(word);
    await this.refresh(this.#latest);
    return word;
  }

  // What finishing the word takes, if the suggestions are about this very text; null otherwise.
  taking(text) {
    return this.#takes() && text === this.#about ? this.at(0, text) : null;
  }

  // The suggestion of a slot as {prefix, word} for this text; null if there is none, or it is about another text.
  at(place, text) {
    const word = this.#shown.suggestions[place];
    return word === undefined || text !== this.#about ? null : { prefix: this.#shown.prefix, word: this.#written(word) };
  }

  #takes() {
    return this.#shown.space_takes && chosen().spaceTakes && !this.leaves(this.#shown.prefix);
  }

  #written(word) {
    return written(word, this.#capital && this.#shown.prefix === "");
  }

  // What was suggested most so far, so that the bar is not empty while the agent is away.
  #withoutAgent(text) {
    const [prefix = ""] = text.match(UNFINISHED) ?? [];
    const fits = (word) => word.toLowerCase().startsWith(prefix.toLowerCase()) && word.length > prefix.length;
    const suggestions = [...this.#seen.keys()].filter(fits).sort((a, b) => this.#seen.get(b) - this.#seen.get(a));
    return { ...NOTHING, suggestions: suggestions.slice(0, 3), prefix, version: this.#shown.version };
  }

  #show(answer, about, fault) {
    if (fault === null) for (const word of answer.suggestions) this.#seen.set(word, (this.#seen.get(word) ?? 0) + 1);
    this.#shown = answer;
    this.#about = about;
    this.#render();
    this.#onAnswer(answer, fault);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#announce(), ANNOUNCE_AFTER_MS);
  }

  #render() {
    const takes = this.#takes();
    this.#slots.forEach((slot, place) => {
      const word = this.#shown.suggestions[place];
      const text = word === undefined ? "" : this.#written(word);
      const taken = takes && place === 0;
      slot.disabled = word === undefined;
      if (slot.textContent !== text) slot.textContent = text;
      slot.classList.toggle("taken", taken);
      slot.title = taken ? "Space takes this word" : "";
    });
  }

  #announce() {
    const words = this.#slots.map((slot) => slot.textContent).filter((word) => word !== "");
    const text = words.length ? `Suggestions: ${words.join(", ")}${this.#takes() ? "; space takes the first" : ""}` : "";
    if (this.#spoken.textContent !== text) this.#spoken.textContent = text;
  }
}
