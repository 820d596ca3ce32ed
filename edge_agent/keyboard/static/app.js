// The keyboard page. Text lives in the field and, once sent, in this tab's bubbles; it goes to the agent on this device
// in the body of a POST and nowhere else. Words come from the agent; this page places them, and goes on without it.

import { ask, Away, isAway, onAway } from "./agent.js";
import { Bar, written } from "./bar.js";
import { Emoji } from "./emoji.js";
import { Keys } from "./keys.js";
import { Panel } from "./panel.js";
import { chosen, onChoice } from "./settings.js";
import { accept, capital, draft, erase, History, insert, moveCaret, startsSentence, swapLast, type, untilCaret } from "./text.js";

const element = (id) => document.getElementById(id);
const field = element("text");
const history = new History();
let current = draft();

// --- The text ----------------------------------------------------------------------------------------------------

// The draft as it is now. If the person moved the caret or the browser edited the text, a key may use nothing of before.
function now() {
  const { value, selectionStart, selectionEnd } = field;
  if (value !== current.text || selectionStart !== current.start || selectionEnd !== current.end) {
    current = draft(value, selectionStart, selectionEnd);
  }
  return current;
}

function put(next, isLetter = false) {
  const last = now();
  if (next === last || next.text.length > field.maxLength) return;
  if (next.text !== last.text) history.record(last, isLetter);
  write(next);
}

function write(next) {
  current = next;
  field.value = next.text;
  field.setSelectionRange(next.start, next.end);
  changed();
}

function changed() {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`; // as tall as its lines; 2 for the border
  element("send").disabled = field.value.trim() === "";
  element("undo").disabled = !history.canUndo;
  keys.shift = startsSentence(now());
  notSent = notKept = "";
  askForWords();
}

function askForWords() {
  const text = untilCaret(now());
  bar.capital = startsSentence(current);
  if (text !== bar.latest) bar.refresh(text);
}

function typed(character, automatic) {
  const at = now();
  const taking = at.start === at.end ? bar.taking(untilCaret(at)) : null;
  const next = type(at, character, { language: chosen().language, automatic, taking });
  put(next, /[\p{L}\p{N}\p{M}'’]/u.test(character));
  if (next.before !== null && taking !== null) say(`${taking.prefix} changed to ${taking.word}`);
}

function back() {
  const at = now();
  const next = erase(at);
  if (next === at.before) bar.leave(lastWord(next));
  put(next);
}

const lastWord = (d) => untilCaret(d).trimEnd().split(/\s/u).at(-1).replace(/[.,?!;:…]+$/u, "");

function take(place) {
  const at = now();
  const found = bar.at(place, untilCaret(at));
  if (found !== null) put(accept(at, found.prefix, found.word));
}

// --- Gliding and sliding ------------------------------------------------------------------------------------------

let pressed = current; // the draft before the last key on the screen, which turns out to begin a glide or a slide
let glides = Promise.resolve(); // one after the other, so that the words stand in order

async function glide(points, keys, capitalized) {
  let answer;
  try {
    answer = await ask("/api/glide", { text: untilCaret(now()), language: chosen().language, points, keys });
  } catch (error) {
    notice(error.message, true);
    return;
  }
  const at = now();
  const cased = (word) => (capitalized ? capital(word, chosen().language) : written(word, startsSentence(at)));
  const [word, ...others] = answer.words.map(cased);
  if (word === undefined) {
    notice("No word lies on that line.");
    return;
  }
  const next = accept(at, "", word);
  if (next.text.length > field.maxLength) return;
  bar.offer(others, word + (next.ownSpace ? " " : ""), untilCaret(next));
  put(next);
  say(word);
}

function say(text) {
  element("spoken").textContent = text;
}

// --- Notices -----------------------------------------------------------------------------------------------------

let notSent = ""; // why the last message was not sent, until the person types on
let notKept = ""; // likewise

function notice(text, fault = false) {
  if (element("notice").textContent !== text) element("notice").textContent = text;
  element("notice").classList.toggle("fault", fault);
}

onAway((gone) => {
  document.body.classList.toggle("away", gone);
  if (!gone) bar.refresh(untilCaret(now()));
});

// --- Sending -----------------------------------------------------------------------------------------------------

async function send() {
  const text = field.value.trim();
  if (text === "") return;
  history.record(now(), false);
  write(draft());
  try {
    const answer = await ask("/api/messages", { text, language: chosen().language });
    const bubble = document.createElement("li");
    bubble.textContent = text;
    if (!answer.kept) bubble.className = "not-kept";
    notKept = answer.reason;
    notice(notKept);
    element("bubbles").append(bubble);
    element("hint").hidden = true;
    element("conversation").scrollTop = 0; // its end, as it is laid out upwards
    panel.refresh();
  } catch (error) {
    write(draft(text + (field.value === "" ? "" : ` ${field.value}`)));
    notSent = error instanceof Away ? error.message : `Not sent. ${error.message}`;
    notice(notSent, true);
  }
}

// --- Start -------------------------------------------------------------------------------------------------------

const emoji = new Emoji((sign) => put(insert(now(), sign)));

const keys = new Keys(element("keys"), {
  type(character) {
    pressed = now();
    if (emoji.searching) emoji.type(character);
    else typed(character, true);
  },
  swap(character) {
    if (emoji.searching) emoji.erase();
    if (emoji.searching) emoji.type(character);
    else put(swapLast(now(), 1, character), true);
  },
  retract: () => (emoji.searching ? emoji.erase() : write(pressed)),
  glide(...drawn) {
    if (!emoji.searching) glides = glides.then(() => glide(...drawn));
  },
  slide: (characters) => emoji.searching || write(moveCaret(now(), characters)),
  erase: () => (emoji.searching ? emoji.erase() : back()),
  emoji: () => emoji.toggle().catch((error) => notice(error.message, true)),
  send,
});

const slots = [...element("suggestions").querySelectorAll("button")];
const bar = new Bar(slots, element("spoken"), (answer, fault) => {
  const text = notSent || (fault === null ? notKept || answer.reason : fault.message);
  notice(text, notSent !== "" || fault !== null);
});

const panel = new Panel((version) => {
  // A new model may suggest other words. Half-typed text waits for the next key: the agent takes a question about text
  // for typing, and a page that was left open must not make the device look used in the middle of its training.
  if (version !== bar.version && !isAway() && (field.value === "" || bar.version === null)) bar.refresh(untilCaret(now()));
});

function choose({ layout, language }) {
  keys.use(layout, language);
  field.lang = language === "und" ? "" : language;
  bar.refresh(untilCaret(now()));
}
onChoice(choose);

slots.forEach((slot, place) => slot.addEventListener("click", () => {
  take(place);
  field.focus();
}));
element("undo").addEventListener("click", () => {
  write(history.undo(now()));
  field.focus();
});
// Pressing a key or a suggestion must not take the caret out of the field.
element("keyboard").addEventListener("mousedown", (event) => {
  if (event.target !== element("emoji-search")) event.preventDefault();
});

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});

// What a physical keyboard types goes the way of the keys on the screen; the rest (pasting, an input method, deleting a
// word) is the browser's.
field.addEventListener("beforeinput", (event) => {
  const { inputType, data, isComposing } = event;
  if (isComposing) return;
  if (inputType === "insertText" && data?.length === 1) typed(data, false);
  else if (inputType === "deleteContentBackward") back();
  else if (inputType === "historyUndo") write(history.undo(now()));
  else if (inputType === "historyRedo") write(history.redo(now()));
  else {
    history.record(now(), false);
    return;
  }
  event.preventDefault();
});
field.addEventListener("compositionstart", () => history.record(now(), false));
field.addEventListener("input", changed);
document.addEventListener("selectionchange", () => {
  if (document.activeElement === field && untilCaret(now()) !== bar.latest) askForWords();
});
field.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const command = event.ctrlKey || event.metaKey;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send();
  } else if (event.key === "Tab" && !event.shiftKey && !command && !bar.empty) {
    event.preventDefault();
    take(0);
  } else if (event.key === "Escape") {
    bar.dismiss(untilCaret(now()));
  } else if (command && !event.altKey && "zyZ".includes(event.key)) {
    event.preventDefault(); // the browser does not know what we typed, and has nothing to undo
    write(event.key === "z" ? history.undo(now()) : history.redo(now()));
  }
});
// Typing anywhere on the page goes to the field.
document.addEventListener("keydown", (event) => {
  const shortcut = event.ctrlKey || event.metaKey || event.altKey;
  if (document.activeElement === document.body && event.key.length === 1 && !shortcut) field.focus();
});

keys.use(chosen().layout, chosen().language);
keys.shift = true;
field.lang = chosen().language === "und" ? "" : chosen().language;
current = draft(field.value); // a browser may give back what was there before a reload
changed();
