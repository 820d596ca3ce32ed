// The keyboard page. Text lives in the field and, once sent, in this tab's bubbles; it goes to the agent on this device
// in the body of a POST and nowhere else. Words come from the agent; this page places them, and goes on without it.

import { answersAgain, ask, Away, isAway, onAway } from "./agent.js";
import { Bar, written } from "./bar.js";
import { Emoji } from "./emoji.js";
import { Keys } from "./keys.js";
import { Panel } from "./panel.js";
import { chosen, onChoice } from "./settings.js";
import {
  accept, acceptAt, capital, draft, erase, History, insert, moveCaret, moved, startsSentence, swapLast, type, untilCaret,
} from "./text.js";

const element = (id) => document.getElementById(id);
const field = element("text");
const history = new History();
let current = draft();
const FORGET_AFTER_MS = 700; // how long a suggestion is held until it is forgotten
const FULL = "The message is full: send it first.";
const WORDS = /[\p{L}\p{N}\p{M}'’]+/gu;
const GLIDE_PATIENCE_MS = 60_000; // a line cannot be typed again: rather wait

// --- The text ----------------------------------------------------------------------------------------------------

// The draft as it is now. If the person moved the caret or the browser edited the text, a key may use nothing of before.
function now() {
  const { value, selectionStart, selectionEnd } = field;
  if (value !== current.text || selectionStart !== current.start || selectionEnd !== current.end) {
    follow(current.text, value);
    current = draft(value, selectionStart, selectionEnd);
  }
  return current;
}

// kind: "letter" or "erase" if the change is one of a row that undo takes back at once.
function put(next, kind = "") {
  const last = now();
  if (next === last) return;
  if (next.text.length > field.maxLength) {
    notKept = FULL;
    notice(FULL, true);
    return;
  }
  if (next.text !== last.text) history.record(last, kind);
  write(next);
}

function write(next) {
  follow(current.text, next.text);
  show(next);
}

function show(next) {
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
  keys.shift = startsSentence(now(), chosen().language);
  notSent = notKept = "";
  askForWords();
}

function askForWords() {
  const text = untilCaret(now());
  bar.capital = startsSentence(current, chosen().language);
  if (text !== bar.latest) bar.refresh(text);
}

function typed(character, automatic) {
  const at = now();
  const atEnd = at.start === at.end && !/^[\p{L}\p{N}\p{M}'’]/u.test(at.text.slice(at.end));
  const taking = atEnd ? bar.taking(untilCaret(at)) : null; // inside a word its beginning says little
  const leaves = (word) => bar.leaves(word);
  const next = type(at, character, { language: chosen().language, automatic, taking, leaves });
  put(next, /[\p{L}\p{N}\p{M}'’]/u.test(character) ? "letter" : "");
  if (next.before !== null && taking !== null) say(`${taking.prefix} changed to ${taking.word}`);
}

function back() {
  const at = now();
  const last = waiting.at(-1);
  if (last !== undefined && at.start === last.at && at.end === last.at) {
    waiting.pop(); // a line whose word has not come yet, or a message that is not sent yet
    return;
  }
  const next = erase(at);
  const wentBack = next === at.before;
  if (wentBack) bar.leave(lastWord(next));
  put(next, wentBack ? "" : "erase");
}

function undo() {
  const next = history.undo(now());
  bar.leave(lastWord(next)); // also where the change was taken back together with what was typed after it
  write(next);
}

const lastWord = (d) => untilCaret(d).match(WORDS)?.at(-1) ?? "";

function take(place) {
  const at = now();
  const found = bar.at(place, untilCaret(at));
  if (found !== null) put(accept(at, found.prefix, found.word));
}

// --- Gliding and sliding ------------------------------------------------------------------------------------------

// A glide's word belongs where the caret was when the line ended. Until the agent has said which word it is, the person
// types on, draws the next line or sends, so its place follows the text. `waiting` are the places that are not filled.
let pressed = current; // the draft before the last key on the screen, which turns out to begin a glide or a slide
let beganSentence = true; // whether that draft began one
let waiting = []; // {at}, in the order in which they were drawn
let queue = Promise.resolve(); // words are asked for one after the other, as each depends on those before it

function follow(before, after) {
  for (const place of waiting) place.at = moved(place.at, before, after);
}

function drawn(points, keys, capitalized) {
  const byHand = capitalized && !beganSentence; // else the place of the word says how it is written
  const place = { at: now().start };
  waiting.push(place);
  queue = queue.then(() => glide(place, points, keys, byHand));
}

async function glide(place, points, keys, byHand) {
  const { language, slurs } = chosen();
  let answer = null;
  while (answer === null && waiting.includes(place)) {
    const before = () => draft(now().text, place.at);
    try {
      answer = await ask("/api/glide", { text: untilCaret(before()), language, slurs, points, keys }, GLIDE_PATIENCE_MS);
    } catch (error) {
      notice(error.message, true);
      if (!(error instanceof Away)) break;
      await answersAgain();
    }
  }
  const at = now();
  const mine = waiting.indexOf(place);
  if (mine < 0) return; // Backspace took the line back
  waiting.splice(mine, 1);
  if (answer === null) return;
  const starts = startsSentence(draft(at.text, place.at), language);
  const [word, ...others] = answer.words.map((one) => (byHand ? capital(one, language) : written(one, starts)));
  if (word === undefined) {
    notice("No word lies on that line.");
    return;
  }
  const next = acceptAt(at, place.at, word);
  if (next.text.length > field.maxLength) {
    notice(FULL, true);
    return;
  }
  history.record(at);
  // The key that may begin the next line was pressed before this word came: what it is taken back to has the word, too.
  pressed = acceptAt(pressed, moved(place.at, at.text, pressed.text), word);
  for (const other of waiting) if (other.at >= place.at) other.at += next.text.length - at.text.length;
  const last = at.start === place.at && at.end === place.at && waiting.length === 0;
  if (last) bar.offer(others, word + (next.ownSpace ? " " : ""), untilCaret(next));
  show(next);
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

// Words that are still to come belong to the message, what is typed meanwhile does not.
function send() {
  if (waiting.length === 0) return sendUntil(field.value.length);
  const end = { at: now().text.length };
  waiting.push(end);
  queue = queue.then(() => {
    if (!waiting.includes(end)) return undefined; // taken back
    waiting.splice(waiting.indexOf(end), 1);
    return sendUntil(end.at);
  });
  return queue;
}

async function sendUntil(end) {
  const at = now();
  const text = at.text.slice(0, end).trim();
  if (text === "") return;
  history.record(at);
  const rest = at.text.slice(end).trimStart();
  const gone = at.text.length - rest.length;
  pressed = draft(pressed.text.slice(moved(end, at.text, pressed.text)).trimStart());
  write(draft(rest, Math.max(0, at.start - gone), Math.max(0, at.end - gone)));
  try {
    const answer = await ask("/api/messages", { text, language: chosen().language });
    const bubble = document.createElement("li");
    bubble.textContent = text;
    if (!answer.kept) offerToKeep(bubble, text, answer);
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

// An empty bubble says which rule keeps the message out of what is learned from, and lets the person overrule it.
function offerToKeep(bubble, text, { reason, rule }) {
  bubble.className = "not-kept";
  const why = document.createElement("p");
  why.textContent = reason;
  bubble.append(why);
  if (rule === "") return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Keep it anyway";
  button.addEventListener("click", async () => {
    try {
      const answer = await ask("/api/messages", { text, language: chosen().language, anyway: true });
      notice(answer.kept ? "Kept, without figures, links and addresses." : answer.reason);
      if (!answer.kept) return;
      bubble.className = "";
      bubble.textContent = text;
      panel.refresh();
    } catch (error) {
      notice(error.message, true);
    }
  });
  bubble.append(button);
}

// --- Start -------------------------------------------------------------------------------------------------------

const emoji = new Emoji((sign) => put(insert(now(), sign)));

const keys = new Keys(element("keys"), {
  type(character) {
    pressed = now();
    beganSentence = startsSentence(pressed, chosen().language);
    if (emoji.searching) emoji.type(character);
    else typed(character, true);
  },
  swap(character) {
    if (emoji.searching) emoji.erase();
    if (emoji.searching) emoji.type(character);
    else put(swapLast(now(), 1, character), "letter");
  },
  retract: () => (emoji.searching ? emoji.erase() : write(pressed)),
  glide(...line) {
    if (!emoji.searching) drawn(...line);
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
}, () => {
  pressed = draft();
  write(pressed); // what is typed and not sent is text, too, and so is what "undo" would bring back
  history.clear();
  changed();
});

function choose({ layout, language }) {
  keys.use(layout, language);
  field.lang = language === "und" ? "" : language;
  bar.refresh(untilCaret(now()));
}
onChoice(choose);

slots.forEach((slot, place) => {
  let held = null; // of a long press
  let forgotten = false;
  const forget = async () => {
    try {
      const word = await bar.forget(place);
      notKept = word === "" ? "" : `“${word}” is suggested no more, until you type it again.`;
      notice(notKept);
    } catch (error) {
      notice(error.message, true);
    }
  };
  slot.addEventListener("pointerdown", (event) => {
    forgotten = false;
    if (event.button !== 0 || slot.disabled) return;
    held = setTimeout(() => {
      forgotten = true; // and so the click that ends the press takes nothing
      forget();
    }, FORGET_AFTER_MS);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) slot.addEventListener(end, () => clearTimeout(held));
  slot.addEventListener("contextmenu", (event) => event.preventDefault());
  slot.addEventListener("keydown", (event) => event.key === "Delete" && forget());
  slot.addEventListener("click", () => {
    if (!forgotten) take(place);
    forgotten = false;
    field.focus();
  });
});
element("undo").addEventListener("click", () => {
  undo();
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
  else if (inputType === "historyUndo") undo();
  else if (inputType === "historyRedo") write(history.redo(now()));
  else {
    history.record(now());
    return;
  }
  event.preventDefault();
});
field.addEventListener("compositionstart", () => history.record(now()));
field.addEventListener("input", ({ inputType }) => {
  changed();
  if (!inputType?.startsWith("insertFrom") || field.value.length < field.maxLength) return;
  notKept = "The message is full: the end of what was pasted may be missing.";
  notice(notKept);
});
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
    if (event.key === "z") undo();
    else write(history.redo(now()));
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
// Without it the page works as well, as long as the agent is there.
navigator.serviceWorker?.register("/worker.js").catch(() => {});
