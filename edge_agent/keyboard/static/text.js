// Editing, as pure functions: a draft and a key in, a draft out. No page, no clock, no network.
//
// A draft is the text, the selection, and two things that only the very next key may use: `ownSpace`, a suggestion put
// the space before the caret and may take it back; `before`, the draft that backspace goes back to after the keyboard
// has changed something unasked.

const ENDS_WORD = /^[\s.,?!;:…)\]}»”]$/u; // typing one of these finishes the word before it
const HUGS_WORD = /^[.,?!;:…)\]}»”]$/u; // stands right after a word: changes places with a suggestion's own space
const SPACED_IN_FRENCH = /^[?!;:»]$/u;
const NARROW_SPACE = "\u202f";
const LONELY_I = /(^|[^\p{L}\p{N}'’_])(i)((?:['’]\p{L}+)?)$/u;
const SENTENCE_START = /(^|[.!?…。؟।]["')\]»”]*\s+|\n)["'([«“¿¡]*$/u;
const WORD_THEN_SPACE = /[\p{L}\p{N}\p{M})"'»”\]] $/u;
const OPENING = /[\s(["'«“¿¡/-]$/u;

export function draft(text = "", start = text.length, end = start) {
  return { text, start, end, ownSpace: false, before: null };
}

export const untilCaret = (d) => d.text.slice(0, d.start);

function replace(d, start, end, string, marks = {}) {
  const text = d.text.slice(0, start) + string + d.text.slice(end);
  return { ...draft(text, start + string.length), ...marks };
}

export const insert = (d, string) => replace(d, d.start, d.end, string);

// Puts something else in place of the last characters before the caret.
export const swapLast = (d, length, string) => replace(d, d.start - length, d.end, string);

export const startsSentence = (d) => SENTENCE_START.test(untilCaret(d));

// The first letter of a word as a capital; in Turkish that of i is İ.
export function capital(word, language) {
  const [first = ""] = word;
  return upper(first, language) + word.slice(first.length);
}

export function upper(text, language) {
  try {
    return text.toLocaleUpperCase(language || undefined);
  } catch {
    return text.toUpperCase(); // not a language tag
  }
}

// One typed character.
//   language: what is typed; English has a capital I, French a space before some signs.
//   automatic: a key on the screen, where two spaces make a full stop; a physical keyboard types what it is told.
//   taking: {prefix, word}, the suggestion that finishing the word takes; null if none.
export function type(d, character, { language = "", automatic = false, taking = null } = {}) {
  const collapsed = d.start === d.end;
  if (collapsed && ENDS_WORD.test(character)) {
    const asTyped = () => ({ ...plainly(d, character, language), before: null });
    if (taking !== null && taking.prefix !== "" && untilCaret(d).endsWith(taking.prefix)) {
      const taken = swapLast(d, taking.prefix.length, taking.word);
      return { ...plainly(taken, character, language), before: asTyped() };
    }
    if (language.startsWith("en") && LONELY_I.test(untilCaret(d))) {
      const length = untilCaret(d).match(LONELY_I)[0].length - untilCaret(d).match(LONELY_I)[1].length;
      const word = capital(untilCaret(d).slice(-length), language);
      return { ...plainly(swapLast(d, length, word), character, language), before: asTyped() };
    }
    if (automatic && character === " " && !d.ownSpace && WORD_THEN_SPACE.test(untilCaret(d))) {
      return { ...swapLast(d, 1, ". "), before: asTyped() };
    }
  }
  return plainly(d, character, language);
}

function plainly(d, character, language) {
  const own = d.ownSpace && d.start === d.end && untilCaret(d).endsWith(" ");
  if (own && character === " ") return { ...d, ownSpace: false, before: null }; // the space is there already
  if (own && HUGS_WORD.test(character)) {
    const spaced = language.startsWith("fr") && SPACED_IN_FRENCH.test(character);
    return { ...swapLast(d, 1, `${spaced ? NARROW_SPACE : ""}${character} `), ownSpace: true };
  }
  return insert(d, character);
}

// Takes a suggestion: it replaces `prefix`, or comes after the text if that is empty.
export function accept(d, prefix, word) {
  const start = d.start - prefix.length;
  const left = d.text.slice(0, start);
  const gap = prefix === "" && left !== "" && !OPENING.test(left) ? " " : "";
  const space = /^\s/u.test(d.text.slice(d.end)) ? "" : " ";
  return replace(d, start, d.end, gap + word + space, { ownSpace: space !== "", before: { ...d, before: null } });
}

// Backspace: goes back on what the keyboard did unasked, or takes the last character as a person sees it.
export function erase(d) {
  if (d.start !== d.end) return replace(d, d.start, d.end, "");
  if (d.before !== null) return d.before;
  const left = untilCaret(d);
  return left === "" ? d : replace(d, d.start - lastCharacter(left).length, d.start, "");
}

// Moves the caret by so many characters, backwards if below 0.
export function moveCaret(d, by) {
  let at = d.start;
  for (; by < 0 && at > 0; by += 1) at -= lastCharacter(d.text.slice(0, at)).length;
  for (; by > 0 && at < d.text.length; by -= 1) at += characters(d.text.slice(at, at + LONGEST))[0].length;
  return draft(d.text, at);
}

const LONGEST = 40; // more than any character that is drawn as one

const lastCharacter = (text) => characters(text.slice(-LONGEST)).at(-1);

function characters(text) {
  if (typeof Intl.Segmenter === "function") return [...new Intl.Segmenter().segment(text)].map((one) => one.segment);
  return [...text];
}

// What undo goes back through. Letters of one word are one step.
export class History {
  #past = [];
  #future = [];
  #typing = false;

  record(d, isLetter) {
    const kept = d.text === this.#past.at(-1)?.text; // a key that was taken back
    if (!(isLetter && this.#typing) && !kept) this.#past.push(d);
    if (this.#past.length > 200) this.#past.shift();
    this.#typing = isLetter;
    this.#future = [];
  }

  undo(d) {
    return this.#move(d, this.#past, this.#future);
  }

  redo(d) {
    return this.#move(d, this.#future, this.#past);
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  #move(d, from, to) {
    this.#typing = false;
    if (from.length === 0) return d;
    to.push(d);
    return { ...from.pop(), ownSpace: false, before: null };
  }
}
