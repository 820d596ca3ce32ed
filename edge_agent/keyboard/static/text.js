// Editing, as pure functions: a draft and a key in, a draft out. No page, no clock, no network.
//
// A draft is the text, the selection, and what only the next keys may use: `ownSpace`, a suggestion put the space before
// the caret and may take it back; `before`, the draft that backspace goes back to after the keyboard has changed
// something unasked; `joined`, where a sign took the place of such a space, which the keys after it may show to be wrong.

import { isAbbreviation } from "./abbreviations.js";

const ENDS_WORD = /^[\s.,?!;:…)\]}»”،؛؟۔।]$/u; // typing one of these finishes the word before it
const HUGS_WORD = /^[.,?!;:…)\]}”،؛؟۔।%٪]/u; // stands right after a word: changes places with a suggestion's own space
// A space, or a quotation mark that closes; those that also open in other languages do if nothing is quoted after them.
const FOLLOWS_CLOSELY = /^(?:[\s"'”’]|[“‘«»](?![\p{L}\p{N}]))/u;
const JOINS_WORDS = /^['’\-‐‑/_@]$/u; // stands between two words, without spaces
const BOTH_WAYS = /^["*~`]$/u; // opens and closes: a quotation, and what messengers show bold, struck out or as code
const STARTS_MARK = /(?:^|[\s([{])[*~`»‚]+$/u;
const OPENED = { "“": "„", "‘": "‚" }; // by the signs that close them in German and open in English
const NARROW_SPACE = "\u202f";
const WORD_GOES_ON = /^(?:[\p{L}\p{N}\p{M}]|['’](?=\p{L}))+/u; // a mark at its end may close a quotation
// A lone i is a word after a space, a quotation mark, a bracket or a dash; not in @i, -i, /i, $i or a_i.
const LONELY_I = /(?<=^|[\s"“‘«„([{—–…¿¡]|(?:^|\s)'|\s\*)(i)((?:['’]\p{L}+){0,2})$/u;
const I_AND_STOP = /(?<=^|[\s"“‘«„—–…])i\.+$/u; // i.e. has a letter where the sentence that ends in I has a space
// Marks that close a quotation in one language open it in another: “ » « ‘.
const SENTENCE_START = /(^|[.!?…。؟।۔](?:["'’‘)\]”“«]|\s?»)*\s+|\n\s*)(?:["'‘([“„‚»¿¡]|«\s?)*$/u;
const AFTER_SALUTATION = /,[^\S\n]*\n\s*$/u;
const LAST_WORD = /(\S+)\s+(?:["'‘([“„‚»¿¡]|«\s?)*$/u;
// A word, an amount, or the end of a quotation or bracket in which no sentence has ended; no smiley, :) or <3.
const SMILEY_THEN_SPACE = /(?:^|\s)(?:[:;=]['’]?[-^o]?[)\]DPpOo3]|[xX]D|<3) $/u;
const WORD_THEN_SPACE =
  /(?:[\p{L}\p{N}\p{M}%°]|(?<=\p{N}\s?)\p{Sc}|(?<![.!?…]\s?["'’‘»”“)\]]*)(?:»|(?<=\S)["'’‘”“)\]])) $/u;
const OPENING = /[\s([{«“„‘¿¡/\-—–_@#]$/u;
// What may follow an apostrophe in English: it's, I'd, I'm, don't, we're, I've, we'll.
const CONTRACTED = /^['’](?:[sdmtrvl]|re|ve|ll)$/u;
const WITHIN_NUMBER = /(?<=\p{N})\u202f?([.:,]) $/u; // 10:30, 3.14
const GOES_ON = /^[\p{L}\p{N}_]$/u;
const SMILES = /^[)(|/\\*<>[\]^'\-]$/u;
const SMILING_LETTERS = /^[DPpOoXx3]$/u;

export function draft(text = "", start = text.length, end = start) {
  return { text, start, end, ownSpace: false, before: null, joined: null };
}

export const untilCaret = (d) => d.text.slice(0, d.start);

function replace(d, start, end, string, marks = {}) {
  const text = d.text.slice(0, start) + string + d.text.slice(end);
  return { ...draft(text, start + string.length), ...marks };
}

export const insert = (d, string) => replace(d, d.start, d.end, string);

// Puts something else in place of the last characters before the caret.
export const swapLast = (d, length, string) => replace(d, d.start - length, d.end, string);

// Where a place in a text is after the text was edited; what is inserted right there comes after it.
export function moved(place, before, after) {
  const shorter = Math.min(before.length, after.length);
  let same = 0;
  while (same < shorter && before[same] === after[same]) same += 1;
  if (place <= same) return place;
  let end = 0;
  while (end < shorter - same && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return place >= before.length - end ? place + after.length - before.length : same;
}

// Whether a sentence begins at the caret. A full stop of an abbreviation does not end one, and in German the line after
// the comma of a salutation goes on.
export function startsSentence(d, language = "") {
  const left = untilCaret(d);
  if (!SENTENCE_START.test(left)) return false;
  const sameLine = left.slice(left.lastIndexOf("\n") + 1);
  if (sameLine.trim() === "") return !(language.startsWith("de") && AFTER_SALUTATION.test(left));
  const found = sameLine.match(LAST_WORD);
  return found === null || !isAbbreviation(found[1], language, sameLine.slice(0, found.index));
}

// The marks of a sign that opens and closes: a row of the sign is one mark, as in **bold**, but "" are two.
const marks = (line, sign) => line.match(sign === '"' ? /"/gu : new RegExp(`[${sign}]+`, "gu")) ?? [];

// Whether a sign belongs to the mark before it, which closes: the second one of **bold**.
function completesMark(line, sign) {
  const rows = marks(line, sign);
  return line.endsWith(`${sign} `) && rows.length % 2 === 0 && rows.at(-1).length < rows.at(-2).length;
}

// Whether a quotation mark at the end of a text opens; it closes if one of its kind is open.
function opensQuote(left) {
  const line = left.slice(left.lastIndexOf("\n") + 1);
  const last = line.at(-1) ?? "";
  if (BOTH_WAYS.test(last)) return marks(line, last).length % 2 === 1 && (last === '"' || STARTS_MARK.test(line));
  return (last === "‚" || (last === "»" && turned(left))) && STARTS_MARK.test(line);
}

// Whether quotations stand in »these« and not in «these».
const turned = (text) => /^[^«»]*»/u.test(text);

// Whether a sign closes a quotation.
function closesQuote(left, character) {
  const line = left.slice(left.lastIndexOf("\n") + 1);
  if (BOTH_WAYS.test(character)) return marks(line, character).length % 2 === 1 || completesMark(line, character);
  const [opened, closed] = [left.lastIndexOf("»"), left.lastIndexOf("«")];
  if (character === "«") return turned(left) && opened > closed;
  if (character === "»" && turned(left)) return opened > closed && left.split("»").length % 2 === 0; // »so», in Swedish
  if (character === "»") return closed > opened;
  return (character === "‘" || character === "“") && line.lastIndexOf(OPENED[character]) > line.lastIndexOf(character);
}

// Whether a word that is put after a text stands right at its last sign.
function isOpening(left) {
  const closed = /[“«‘]$/u.test(left) && closesQuote(left.slice(0, -1), left.at(-1));
  return !closed && (OPENING.test(left) || opensQuote(left) || /(^|[\s([{])['’]$/u.test(left));
}

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
//   leaves: whether the person wants a word as it was typed.
export function type(d, character, { language = "", automatic = false, taking = null, leaves = () => false } = {}) {
  const collapsed = d.start === d.end;
  const left = untilCaret(d);
  // A name that goes on after its full stop, as of a file or a computer, was no slip of a word.
  if (collapsed && d.before !== null && /\p{L}\.$/u.test(left) && GOES_ON.test(character)) {
    return plainly(d.before, character, language);
  }
  if (collapsed && d.joined !== null) {
    const apart = parted(d, character, language);
    if (apart !== null) return apart;
  }
  if (collapsed && ENDS_WORD.test(character)) {
    // A space that was typed for the change stays one when the change is taken back: the next one is no full stop.
    const asTyped = () => ({ ...plainly(d, character, language), before: null, ownSpace: character === " " });
    if (taking !== null && taking.prefix !== "" && left.endsWith(taking.prefix)) {
      const taken = swapLast(d, taking.prefix.length, taking.word);
      return { ...plainly(taken, character, language), before: asTyped() };
    }
    const small = language.startsWith("en") ? lonelyI(left, character) : 0;
    if (small > 0 && !leaves(left.slice(-small))) {
      const word = capital(left.slice(-small), language);
      return { ...plainly(swapLast(d, small, word), character, language), before: asTyped() };
    }
    if (automatic && character === " " && !d.ownSpace && WORD_THEN_SPACE.test(left) && !SMILEY_THEN_SPACE.test(left)) {
      return { ...swapLast(d, 1, ". "), before: { ...asTyped(), ownSpace: false } };
    }
  }
  return plainly(d, character, language);
}

// How many characters before the caret are the word I, once this character has been typed; 0 if none.
function lonelyI(left, character) {
  const stopped = left.match(I_AND_STOP);
  if (stopped !== null && /\s/u.test(character)) return stopped[0].length;
  const [found = "", , ending = ""] = left.match(LONELY_I) ?? [];
  if (found === "" || ending !== "") return found.length;
  const bracketed = /[([{]$/u.test(left.slice(0, -1));
  if (/^[)\]]$/u.test(character)) return !bracketed && left.includes(character === ")" ? "(" : "[") ? 1 : 0;
  return /^[\s,?!…”»—]$/u.test(character) && (!bracketed || /\s/u.test(character)) ? 1 : 0;
}

function plainly(d, character, language) {
  const own = d.ownSpace && d.start === d.end && untilCaret(d).endsWith(" ");
  const [spaced = "", sign] = own && /^\p{N}$/u.test(character) ? (untilCaret(d).match(WITHIN_NUMBER) ?? []) : [];
  if (spaced !== "") return swapLast(d, spaced.length, sign + character);
  const goesOn = d.joined?.end === d.start && (d.joined.smile ? SMILING_LETTERS : /^\p{L}$/u).test(character);
  if (goesOn) return { ...insert(d, character), joined: { ...d.joined, end: d.start + 1 } };
  if (!own) return insert(d, character);
  if (character === " ") return { ...d, ownSpace: false, before: null, joined: null }; // the space is there already
  const at = d.start - 1;
  if (JOINS_WORDS.test(character)) {
    const next = swapLast(d, 1, character);
    return /['’]/u.test(character) ? { ...next, joined: { at, end: next.start, smile: false } } : next;
  }
  if (HUGS_WORD.test(character) || closesQuote(untilCaret(d), character)) {
    const apart = language.startsWith("fr") && spacedInFrench(untilCaret(d), character);
    const next = { ...swapLast(d, 1, `${apart ? NARROW_SPACE : ""}${character} `), ownSpace: true };
    return /[:;]/u.test(character) ? { ...next, joined: { at, end: next.start, smile: true } } : next;
  }
  return insert(d, character);
}

// Whether a space stands before a sign in French: not within ?! or !!!, nor at the end of a quotation that began without.
function spacedInFrench(left, character) {
  if (character === "»") return !/«[^\s«][^«]*$/u.test(left);
  return /^[?!;:]$/u.test(character) && !(/^[?!]$/u.test(character) && /[?!] $/u.test(left));
}

// The keys after a sign that took the place of a suggestion's space may show that the space belongs there: a quotation
// begins ("she said 'no"), or the sign is the eyes of a smiley. Null if they do not.
function parted(d, character, language) {
  const { at, end, smile } = d.joined;
  const tail = d.text.slice(at, d.start);
  if (!smile) {
    const quotes = /^\p{L}$/u.test(character) && language.startsWith("en") && !CONTRACTED.test(tail + character);
    return quotes && d.start === end ? swapLast(d, tail.length, ` ${tail}${character}`) : null;
  }
  const eyes = tail.trim()[0];
  if (/^\u202f?[:;] $/u.test(tail) && SMILES.test(character)) return swapLast(d, tail.length, ` ${eyes}${character}`);
  if (/^\u202f?[:;] \S$/u.test(tail) && /^\s$/u.test(character)) {
    return swapLast(d, tail.length, ` ${eyes}${tail.at(-1)}${character}`);
  }
  return null;
}

// Takes a suggestion: it replaces the word that `prefix` begins, or comes after the text if that is empty.
export function accept(d, prefix, word) {
  const start = d.start - prefix.length;
  const left = d.text.slice(0, start);
  const gap = prefix === "" && left !== "" && !isOpening(left) ? " " : "";
  const [rest = ""] = prefix === "" ? [] : (d.text.slice(d.end).match(WORD_GOES_ON) ?? []);
  const right = d.text.slice(d.end + rest.length);
  const space = FOLLOWS_CLOSELY.test(right) || HUGS_WORD.test(right) ? "" : " ";
  const marks = { ownSpace: space !== "", before: { ...d, before: null, joined: null } };
  return replace(d, start, d.end + rest.length, gap + word + space, marks);
}

// Puts a glided word where its line ended, which may be before what was typed since.
export function acceptAt(d, place, word) {
  if (d.start === place && d.end === place) return accept(d, "", word);
  const { text } = accept(draft(d.text, place), "", word);
  const after = (at) => (at >= place ? at + text.length - d.text.length : at);
  return { ...d, text, start: after(d.start), end: after(d.end), before: null, joined: null };
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

// What undo goes back through. Letters of one word are one step, and so is a row of erased characters.
export class History {
  #past = [];
  #future = [];
  #kind = "";

  // kind: "letter" or "erase" for a change that may be part of a longer one.
  record(d, kind = "") {
    const kept = d.text === this.#past.at(-1)?.text; // a key that was taken back
    if (!(kind !== "" && kind === this.#kind) && !kept) this.#past.push(d);
    if (this.#past.length > 200) this.#past.shift();
    this.#kind = kind;
    this.#future = [];
  }

  undo(d) {
    return this.#move(d, this.#past, this.#future);
  }

  redo(d) {
    return this.#move(d, this.#future, this.#past);
  }

  clear() {
    this.#past = [];
    this.#future = [];
    this.#kind = "";
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  #move(d, from, to) {
    this.#kind = "";
    if (from.length === 0) return d;
    to.push(d);
    return { ...from.pop(), ownSpace: false, before: null, joined: null };
  }
}
