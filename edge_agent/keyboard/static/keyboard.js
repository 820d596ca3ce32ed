// The keyboard page. Text lives in the field and, once sent, in this tab's bubbles; it goes to the agent on this device
// in the body of a POST and nowhere else. Words come from the agent; this script only places them.
"use strict";

const DEBOUNCE_MS = 40; // too short to notice, long enough that a burst of changes asks once
const ABOUT_EVERY_MS = 3000;
const HOLD_MS = 450; // how long backspace is held before it repeats, and then how fast
const REPEAT_MS = 60;

const WORD_PART = /[A-Za-z0-9']*$/; // as the agent cuts words
const SENTENCE_START = /(^|[.!?]\s+)$/;
const HUGS_THE_WORD = /^[.,?!:;)]$/; // stands right after a word: takes back the space that a suggestion added
const ALWAYS_CAPITAL = /^i('|$)/; // I, I'm, I'll: the model knows lower case only

const element = (id) => document.getElementById(id);
const field = element("text");
const slots = [...element("suggestions").children];

// --- The agent ---------------------------------------------------------------------------------------------------

async function ask(path, body, signal) {
  const request = { signal };
  if (body !== undefined) {
    request.method = "POST";
    request.headers = { "Content-Type": "application/json" };
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The agent on this device does not answer. Is it running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The agent answered with status ${response.status}.`);
  return answer;
}

function notice(text, fault = false) {
  element("notice").textContent = text;
  element("notice").classList.toggle("fault", fault);
}

// --- The text ----------------------------------------------------------------------------------------------------

const beforeCaret = () => field.value.slice(0, field.selectionStart);
const wordBeforeCaret = () => beforeCaret().match(WORD_PART)[0];

let spaceAddedAt = -1; // where the caret stands right after a suggestion's own space; -1 after any other change
let notSent = ""; // why the last message was not sent, until the person types on

function replace(start, end, text) {
  if (field.value.length - (end - start) + text.length > field.maxLength) return;
  field.setRangeText(text, start, end, "end");
  changed();
}

function takeBackSpaceBefore(character) {
  if (HUGS_THE_WORD.test(character) && field.selectionEnd === spaceAddedAt && beforeCaret().endsWith(" ")) {
    field.setRangeText("", spaceAddedAt - 1, spaceAddedAt, "end");
  }
}

function insert(character) {
  takeBackSpaceBefore(character);
  replace(field.selectionStart, field.selectionEnd, character);
}

function erase() {
  const { selectionStart: start, selectionEnd: end } = field;
  const last = [...field.value.slice(0, start)].at(-1) ?? ""; // a whole character, also one of two code units
  replace(start === end ? start - last.length : start, end, "");
}

function changed() {
  spaceAddedAt = -1;
  notSent = "";
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`; // as tall as its lines; 2 for the border
  element("send").disabled = field.value.trim() === "";
  setShift(SENTENCE_START.test(beforeCaret()));
  refreshSoon();
}

// --- Suggestions -------------------------------------------------------------------------------------------------

let shown = { suggestions: [], completing: false, version: null };
let askedFor = null;
let refreshTimer;
let pending = new AbortController();

function refreshSoon() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(refresh, DEBOUNCE_MS);
}

async function refresh() {
  pending.abort(); // an older answer must not overwrite a newer one
  pending = new AbortController();
  const { signal } = pending;
  askedFor = beforeCaret();
  try {
    const answer = await ask("/api/suggest", { text: askedFor }, signal);
    if (signal.aborted) return;
    notice(notSent || answer.reason, notSent !== "");
    show(answer);
  } catch (error) {
    if (signal.aborted) return;
    notice(notSent || error.message, true);
    show({ suggestions: [], completing: false, version: null });
  }
}

function show(answer) {
  shown = answer;
  slots.forEach((slot, place) => {
    const word = answer.suggestions[place];
    slot.disabled = word === undefined;
    slot.textContent = word === undefined ? "" : written(word);
  });
}

function dismiss() {
  clearTimeout(refreshTimer);
  pending.abort();
  askedFor = beforeCaret(); // nothing new to ask until the text changes
  show({ ...shown, suggestions: [] });
}

function written(word) {
  const capital = ALWAYS_CAPITAL.test(word) || (shift && !shown.completing);
  return capital ? word[0].toUpperCase() + word.slice(1) : word;
}

function accept(place) {
  const word = shown.suggestions[place];
  const typed = wordBeforeCaret();
  // A space typed a moment ago has finished the word that these suggestions would complete.
  if (word === undefined || (shown.completing && typed === "")) return;
  const start = field.selectionStart - typed.length;
  const gap = start > 0 && !/\s$/.test(field.value.slice(0, start)) && typed === "" ? " " : "";
  const space = /^\s/.test(field.value.slice(field.selectionEnd)) ? "" : " ";
  replace(start, field.selectionEnd, gap + written(word) + space);
  spaceAddedAt = space === "" ? -1 : field.selectionEnd;
}

// --- Sending -----------------------------------------------------------------------------------------------------

async function send() {
  const text = field.value.trim();
  if (text === "") return;
  field.value = "";
  changed();
  try {
    const answer = await ask("/api/messages", { text });
    const bubble = document.createElement("li");
    bubble.textContent = text;
    element("bubbles").append(bubble);
    element("hint").hidden = true;
    element("conversation").scrollTop = element("conversation").scrollHeight;
    showStored(answer.stored);
  } catch (error) {
    field.value = text + (field.value === "" ? "" : ` ${field.value}`);
    changed();
    notSent = `Not sent. ${error.message}`;
    notice(notSent, true);
  }
}

// --- The keys on the screen --------------------------------------------------------------------------------------

const icon = (path) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg>`;
const UP = icon("M12 4 4 12h4v7h8v-7h4z");
const CROSSED = icon("M9 5h12v14H9l-6-7zM12.5 9.5l5 5m0-5-5 5");
const SHIFT = { label: "Shift", look: UP, style: "wide special", press: () => setShift(!shift) };
const ERASE = { label: "Backspace", look: CROSSED, style: "wide special", press: erase, repeats: true };
const SPACE = { label: "Space", look: "space", style: "space", press: () => insert(" ") };
const SEND = { label: "Send message", look: icon("M12 20V5m-6 6 6-6 6 6"), style: "wide special", press: send };
const FIGURES = { label: "Figures and signs", look: "?123", style: "wide special", press: () => showLayer("figures") };
const LETTERS = { label: "Letters", look: "ABC", style: "wide special", press: () => showLayer("letters") };
const HALF = { style: "gap half" };
const WIDE = { style: "gap wide" };

const LAYERS = {
  letters: [
    [..."qwertyuiop"],
    [HALF, ..."asdfghjkl", HALF],
    [SHIFT, ..."zxcvbnm", ERASE],
    [FIGURES, ",", SPACE, ".", "?", SEND],
  ],
  figures: [
    [..."1234567890"],
    [..."-/:;()&@\"'"],
    [WIDE, ..."!?*+=%#", ERASE],
    [LETTERS, ",", SPACE, ".", "?", SEND],
  ],
};

let shift = false;
let layer = "letters";

function showLayer(name) {
  layer = name;
  element("keys").replaceChildren(...LAYERS[name].map((row) => {
    const line = document.createElement("div");
    line.className = "row";
    line.append(...row.map(makeKey));
    return line;
  }));
  setShift(shift);
}

function makeKey(key) {
  if (typeof key === "string") return makeKey({ label: key, look: key, style: "", press: typeCharacter });
  const button = document.createElement("button");
  const face = document.createElement("span");
  button.type = "button";
  button.className = `key ${key.style}`;
  button.tabIndex = -1; // with a physical keyboard nobody needs to walk through thirty keys
  button.append(face);
  if (key.press === undefined) {
    button.disabled = true;
    return button;
  }
  button.setAttribute("aria-label", key.label);
  face.innerHTML = key.look.startsWith("<svg") ? key.look : ""; // our own icons only
  if (face.innerHTML === "") face.textContent = key.look;
  listen(button, key);
  return button;
}

// A pointer presses at once, so that two thumbs can overlap. The click that follows it counts from 1 and may even hit
// the key of another layer; a click that counts 0 comes from assistive technology and is all there is.
function listen(button, key) {
  let timer;
  const release = () => clearTimeout(timer);
  const repeat = () => {
    key.press(button);
    timer = setTimeout(repeat, REPEAT_MS);
  };
  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    key.press(button);
    if (key.repeats) timer = setTimeout(repeat, HOLD_MS);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(end, release);
  button.addEventListener("click", (event) => {
    if (event.detail === 0) key.press(button);
  });
}

function typeCharacter(button) {
  insert(button.textContent);
  if (layer === "figures" && button.textContent === "'") showLayer("letters"); // it's: the next key is a letter
}

function setShift(on) {
  shift = on;
  for (const button of element("keys").querySelectorAll("button")) {
    const label = button.getAttribute("aria-label");
    if (label === SHIFT.label) button.setAttribute("aria-pressed", String(on));
    if (/^[a-z]$/i.test(label ?? "")) {
      const letter = on ? label.toUpperCase() : label.toLowerCase();
      button.setAttribute("aria-label", letter);
      button.firstChild.textContent = letter;
    }
  }
  show(shown); // suggestions follow the case
}

// --- What happens here -------------------------------------------------------------------------------------------

const DOING = {
  ineligible: "Waiting to be idle, charging and on Wi-Fi",
  settling: "Waiting a little, to be sure that it stays idle",
  "checked-in": "Ready; waiting to be chosen for a round",
  preparing: "Chosen; fetching the model",
  training: "Training on the messages kept here",
  reporting: "Sending its update",
  resting: "Resting until it is asked to come back",
};

function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function showStored(stored) {
  element("stored").textContent = counted(stored, "message");
}

async function refreshAbout() {
  let about;
  try {
    about = await ask("/api/about");
  } catch (error) {
    element("state").textContent = error.message;
    element("reason").textContent = "";
    return;
  }
  const trained = about.last_trained_at_s;
  const report = about.last_report_bytes;
  element("device").textContent = about.device;
  element("version").textContent = about.version === null ? "none yet" : `version ${about.version}`;
  element("state").textContent = DOING[about.state] ?? about.state;
  element("reason").textContent = about.reason && `(${about.reason})`;
  showStored(about.stored);
  element("last-trained").textContent = trained === null ? "not yet" : WHEN.format(trained * 1000);
  element("last-report").textContent = report === null ? "none yet" : size(report);
  element("bytes-sent").textContent = `${size(about.bytes_sent)} in ${counted(about.reports_sent, "report")}`;
  for (const label of document.querySelectorAll("[data-emulated]")) label.hidden = !about.emulated;
  // A new model may suggest other words. Half-typed text waits for the next key: the agent takes a question about text for
  // typing, and a page that was left open must not make the device look used in the middle of its training.
  if (about.version !== shown.version && (field.value === "" || shown.version === null)) refreshSoon();
}

// --- Start -------------------------------------------------------------------------------------------------------

slots.forEach((slot, place) => slot.addEventListener("click", () => {
  accept(place);
  field.focus();
}));
// Pressing a key or a suggestion must not take the caret out of the field.
document.querySelector(".keyboard").addEventListener("mousedown", (event) => event.preventDefault());

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
field.addEventListener("input", changed);
field.addEventListener("beforeinput", (event) => takeBackSpaceBefore(event.data ?? ""));
document.addEventListener("selectionchange", () => {
  if (beforeCaret() !== askedFor) refreshSoon();
});
field.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send();
  } else if (event.key === "Tab" && !event.shiftKey && shown.suggestions.length > 0) {
    event.preventDefault();
    accept(0);
  } else if (event.key === "Escape") {
    dismiss();
  }
});
// Typing anywhere on the page goes to the field.
document.addEventListener("keydown", (event) => {
  const shortcut = event.ctrlKey || event.metaKey || event.altKey;
  if (document.activeElement === document.body && event.key.length === 1 && !shortcut) field.focus();
});

showLayer("letters");
changed();
refreshAbout();
setInterval(() => document.hidden || refreshAbout(), ABOUT_EVERY_MS);
