// The keys on the screen. They report what was pressed and know nothing of the text.

import { LAYOUTS, SIGNS } from "./layouts.js";
import { upper } from "./text.js";

const HOLD_MS = 420; // how long a key is held before it repeats, or offers its accents
const REPEAT_MS = 55;
const GLIDE_FROM = 0.6; // how far a press goes on, in key widths, before it is a glide: a tap may smear
const GLIDE_STEP = 0.1; // distance of the points of a glide, in key widths
const MAX_GLIDE_POINTS = 400; // the agent takes no more
const SLIDE_PX = 12; // on the space key, for each character that the caret moves

const icon = (path) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg>`;
const UP = icon("M12 4 4 12h4v7h8v-7h4z");
const CROSSED = icon("M9 5h12v14H9l-6-7zM12.5 9.5l5 5m0-5-5 5");
const SMILE = icon("M12 3a9 9 0 1 0 0 18 9 9 0 1 0 0-18M8.5 14a4.2 4.2 0 0 0 7 0M9 9.2v.6m6-.6v.6");
const ARROW = icon("M12 20V5m-6 6 6-6 6 6");

export class Keys {
  #board;
  #on;
  #layout = LAYOUTS.qwerty;
  #language = "";
  #shift = false;
  #layer = -1; // -1 letters, else which page of signs
  #accents = null; // the open choice of a held key
  #drag = null; // the last press of a letter or of space, which may become a glide or a slide

  // on: {type(character), swap(character), retract(), glide(points, keys, capital), slide(characters), erase(), emoji(),
  // send()}. swap replaces the character that the same press typed, retract takes it back. A glide is its points and the
  // centres of the letter keys, in key widths.
  constructor(board, on) {
    this.#board = board;
    this.#on = on;
  }

  use(layout, language) {
    this.#layout = LAYOUTS[layout];
    this.#language = language === "und" ? "" : language;
    this.#draw();
  }

  get shift() {
    return this.#shift;
  }

  set shift(on) {
    if (this.#shift === on) return;
    this.#shift = on;
    for (const button of this.#board.querySelectorAll("[data-letter]")) this.#letter(button);
    this.#board.querySelector("[aria-pressed]")?.setAttribute("aria-pressed", String(on));
  }

  #draw() {
    this.#closeAccents();
    const letters = this.#layer < 0;
    const [first, second, third] = letters ? this.#layout.rows : SIGNS[this.#layer];
    const erase = this.#special("Backspace", CROSSED, () => this.#on.erase(), { repeats: true });
    const left = letters
      ? this.#special("Shift", UP, () => { this.shift = !this.#shift; }, { pressed: this.#shift })
      : this.#special(this.#layer ? "First signs" : "More signs", this.#layer ? "?123" : "=\\<", () => this.#go(1 - this.#layer));
    const other = letters
      ? this.#special("Figures and signs", "?123", () => this.#go(0))
      : this.#special("Letters", /[a-z]/.test(this.#layout.rows[0]) ? "ABC" : "АБВ", () => this.#go(-1));
    const space = this.#special("Space", this.#layout.name, () => this.#on.type(" "), { style: "space", drag: "slide" });
    const emoji = this.#special("Emoji", SMILE, () => this.#on.emoji(), { style: "special" });
    emoji.tabIndex = 0; // a physical keyboard has no such key
    const send = this.#special("Send message", ARROW, () => this.#on.send(), { style: "wide go" });
    this.#board.replaceChildren(
      this.#row([...first].map((c) => this.#character(c))),
      this.#row([...second].map((c) => this.#character(c)), second.length < first.length ? "indented" : ""),
      this.#row([left, ...[...third].map((c) => this.#character(c)), erase]),
      this.#row([other, emoji, this.#character(","), space, this.#character("."), this.#character("?"), send]),
    );
  }

  #go(layer) {
    this.#layer = layer;
    this.#draw();
  }

  #row(keys, style = "") {
    const line = document.createElement("div");
    line.className = `row ${style}`;
    line.append(...keys);
    return line;
  }

  #special(label, look, press, { style = "wide special", repeats = false, pressed, drag } = {}) {
    const button = this.#button(style);
    button.setAttribute("aria-label", label);
    if (pressed !== undefined) button.setAttribute("aria-pressed", String(pressed));
    if (look.startsWith("<svg")) button.firstChild.innerHTML = look; // our own icons only
    else button.firstChild.textContent = look;
    this.#listen(button, press, { repeats, drag });
    return button;
  }

  #character(character) {
    const button = this.#button("");
    button.dataset[character.toLowerCase() === character.toUpperCase() ? "sign" : "letter"] = character;
    this.#letter(button);
    const drag = "letter" in button.dataset ? "glide" : undefined;
    this.#listen(button, () => this.#type(button), { accents: this.#layout.long[character] ?? "", drag });
    return button;
  }

  #button(style) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `key ${style}`;
    button.tabIndex = -1; // with a physical keyboard nobody needs to walk through thirty keys
    button.append(document.createElement("span"));
    return button;
  }

  #letter(button) {
    const { letter, sign } = button.dataset;
    const character = letter === undefined ? sign : this.#cased(letter);
    button.firstChild.textContent = character;
    button.setAttribute("aria-label", NAMES[character] ?? character);
  }

  #cased(letter) {
    return this.#shift && letter !== "ß" ? upper(letter, this.#language) : letter;
  }

  #type(button) {
    const character = button.firstChild.textContent;
    this.#on.type(character);
    if (this.#layer >= 0 && character === "'") this.#go(-1); // it's: the next key is a letter
  }

  // A pointer presses at once, so that two thumbs can overlap. The click that follows it counts from 1 and may even hit
  // the key of another layer; a click that counts 0 comes from assistive technology and is all there is.
  #listen(button, press, { repeats = false, accents = "", drag } = {}) {
    let timer;
    const release = (event) => {
      clearTimeout(timer);
      button.classList.remove("down");
      if (this.#accents?.button === button) this.#chooseAccent(event);
      if (this.#drag?.button === button) this.#drop(event);
    };
    const repeat = () => {
      press();
      timer = setTimeout(repeat, REPEAT_MS);
    };
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.#closeAccents();
      button.classList.add("down");
      const capital = this.#shift;
      if (!this.#drag?.begun) this.#drag = null;
      if (drag && this.#drag === null) {
        button.setPointerCapture(event.pointerId);
        this.#drag = { button, drag, capital, points: [[event.clientX, event.clientY]], begun: false, slid: 0 };
      }
      press();
      if (repeats) timer = setTimeout(repeat, HOLD_MS);
      else if (accents !== "") timer = setTimeout(() => this.#offerAccents(button, accents, capital, event), HOLD_MS);
    });
    button.addEventListener("pointermove", (event) => {
      // On a busy device the timer may run before a movement is told that came before it: then it is no held key.
      const late = this.#accents?.button === button && event.timeStamp < this.#accents.since;
      if (late) this.#goOnFrom(this.#accents.drag);
      if (this.#accents?.button === button) this.#pointAt(event.clientX);
      else if (this.#drag?.button === button) {
        this.#follow(event);
        if (this.#drag.begun) clearTimeout(timer);
      }
    });
    button.addEventListener("pointerup", release);
    button.addEventListener("pointercancel", release);
    button.addEventListener("pointerleave", (event) => {
      if (!button.hasPointerCapture(event.pointerId)) release(event);
    });
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    button.addEventListener("click", (event) => {
      if (event.detail === 0) press();
    });
  }

  get #unit() {
    return this.#board.querySelector("[data-letter]")?.offsetWidth ?? 1;
  }

  #follow({ clientX, clientY }) {
    const drag = this.#drag;
    const [[startX, startY]] = drag.points;
    if (!drag.begun) {
      const { left, right, top, bottom } = drag.button.getBoundingClientRect();
      const outside = clientX < left || clientX > right || clientY < top || clientY > bottom;
      const far = Math.hypot(clientX - startX, clientY - startY) > GLIDE_FROM * this.#unit;
      if (drag.drag === "glide" ? !(outside && far) : Math.abs(clientX - startX) < SLIDE_PX) return;
      drag.begun = true;
      drag.button.classList.remove("down");
      this.#on.retract();
      if (drag.drag === "glide") this.#board.append(drag.trail = trail());
    }
    if (drag.drag === "slide") {
      const slid = Math.trunc((clientX - startX) / SLIDE_PX);
      if (slid !== drag.slid) this.#on.slide(slid - drag.slid);
      drag.slid = slid;
      return;
    }
    const [x, y] = drag.points.at(-1);
    if (Math.hypot(clientX - x, clientY - y) < GLIDE_STEP * this.#unit) return;
    if (drag.points.length >= MAX_GLIDE_POINTS - 1) drag.points = drag.points.filter((_, place) => place % 2 === 0);
    drag.points.push([clientX, clientY]);
    const board = this.#board.getBoundingClientRect();
    drag.trail.firstChild.setAttribute("points", drag.points.map(([a, b]) => [a - board.left, b - board.top]).join(" "));
  }

  #drop(event) {
    const { drag, begun, trail: line, points, capital } = this.#drag;
    this.#drag = null;
    line?.remove();
    if (drag !== "glide" || !begun || event.type !== "pointerup") return;
    const { left, top } = this.#board.getBoundingClientRect();
    const inKeys = (x, y) => [x - left, y - top].map((px) => Math.round((100 * px) / this.#unit) / 100);
    const keys = {};
    for (const button of this.#board.querySelectorAll("[data-letter]")) {
      const box = button.getBoundingClientRect();
      keys[button.dataset.letter] = inKeys(box.left + box.width / 2, box.top + box.height / 2);
    }
    points.push([event.clientX, event.clientY]);
    this.#on.glide(points.map(([x, y]) => inKeys(x, y)), keys, capital);
  }

  #goOnFrom(drag) {
    this.#closeAccents();
    this.#drag = drag;
  }

  #offerAccents(button, accents, capital, event) {
    const drag = this.#drag;
    this.#drag = null;
    button.setPointerCapture(event.pointerId);
    const menu = document.createElement("div");
    menu.className = "accents";
    menu.setAttribute("aria-hidden", "true"); // there is no holding a key without a pointer
    for (const accent of accents) {
      const choice = document.createElement("span");
      choice.textContent = capital && accent !== "ß" ? upper(accent, this.#language) : accent;
      menu.append(choice);
    }
    this.#board.append(menu);
    const key = button.getBoundingClientRect();
    const board = this.#board.getBoundingClientRect();
    const x = Math.min(Math.max(0, key.left - board.left), board.width - menu.offsetWidth);
    menu.style.left = `${x}px`;
    menu.style.top = `${key.top - board.top - menu.offsetHeight}px`;
    this.#accents = { button, menu, drag, since: event.timeStamp + HOLD_MS };
    this.#pointAt(event.clientX);
  }

  #pointAt(x) {
    for (const choice of this.#accents.menu.children) {
      const box = choice.getBoundingClientRect();
      const first = choice === this.#accents.menu.firstChild;
      const last = choice === this.#accents.menu.lastChild;
      choice.classList.toggle("pointed", (first || x >= box.left) && (last || x < box.right));
    }
  }

  #chooseAccent(event) {
    const choice = this.#accents.menu.querySelector(".pointed");
    this.#closeAccents();
    if (event.type === "pointerup" && choice !== null) this.#on.swap(choice.textContent);
  }

  #closeAccents() {
    this.#accents?.menu.remove();
    this.#accents = null;
  }
}

function trail() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.classList.add("trail");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(svg.namespaceURI, "polyline"));
  return svg;
}

// How a screen reader should say what it would skip or misread.
const NAMES = {
  ",": "comma", ".": "full stop", "?": "question mark", "-": "hyphen", "'": "apostrophe", "\"": "quotation mark",
  ":": "colon", ";": "semicolon", "(": "left parenthesis", ")": "right parenthesis", "/": "slash", "_": "underscore",
};
