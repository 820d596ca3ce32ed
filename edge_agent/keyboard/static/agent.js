// The agent on this device: questions to it, and whether it is there at all.

const AGAIN_MS = [1000, 1000, 2000, 3000, 5000]; // then every five seconds
const PATIENCE_MS = 10_000;

export class Away extends Error {
  constructor() {
    super("The keyboard’s helper on this device is not running. Your text is kept here, and you can go on typing: keys, "
      + "capitals, emoji and undo work; new suggestions, corrections, gliding and sending wait for it.");
  }
}

const KEY = "nightjar-key";
const key = elsewhere() ? "" : keyFromAddress();

// Another user of this machine may listen on the same port of ::1, which browsers try first for the name localhost. So
// nothing is kept for that name, which a page of theirs could read.
function elsewhere() {
  if (location.hostname !== "localhost") return false;
  try {
    localStorage.removeItem(KEY);
  } catch { /* a browser that keeps nothing */ }
  location.replace(location.href.replace("//localhost", "//127.0.0.1"));
  return true;
}

// The address that the agent prints ends in the key; this browser remembers it for this address and port.
function keyFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given !== null) history.replaceState(null, "", location.pathname);
  try {
    if (given !== null) localStorage.setItem(KEY, given);
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return given ?? ""; // a browser that keeps nothing: it holds until the page is closed
  }
}

// The same page is open already, and only what stands behind the # is new.
addEventListener("hashchange", () => location.hash.startsWith("#key=") && location.reload());

// Another user of this machine may listen on the agent's port while the agent is away. So the key never leaves this page:
// questions and answers are sealed with keys made from it (edge_agent/keyboard/sealing.py), and an answer that only
// somebody else can have made counts as none.

class Refused extends Error {
  constructor() {
    super("This browser may not use the keyboard yet: open the address that 'nightjar-agent status' prints.");
  }
}

const encoded = (text) => new TextEncoder().encode(text);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const random = (length) => crypto.getRandomValues(new Uint8Array(length));
const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
};

const client = hex(random(16));
let session; // a promise of the keys that the agent's process and this page share
let known = false; // the agent has answered this page: a refusal, which has no seal, is then somebody else's

async function begin(signal) {
  const response = await fetch("/api/session", { signal });
  const { number } = await response.json();
  if (!/^[0-9a-f]{32}$/.test(number)) throw new Error("not the agent");
  const base = await crypto.subtle.importKey("raw", encoded(key || "none"), "HKDF", false, ["deriveKey"]);
  const salt = Uint8Array.from((client + number).match(/../g), (pair) => parseInt(pair, 16));
  const [up, down] = ["up", "down"].map((way) => crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt, info: encoded(`nightjar keyboard ${way}`) },
    base, { name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"],
  ));
  return { number, up: await up, down: await down };
}

async function sealed(path, body, signal, mayBeginAgain = true) {
  session ??= begin(signal);
  const keys = await session;
  const method = body === undefined ? "GET" : "POST";
  const iv = random(12);
  const question = new Uint8Array(await crypto.subtle.encrypt(
    { name: "AES-GCM", iv, additionalData: encoded(`${method} ${path}`) },
    keys.up, encoded(body === undefined ? "" : JSON.stringify(body)),
  ));
  const authorization = `Sealed ${client} ${keys.number} ${hex(iv)}`;
  const request = { method, signal, headers: { Authorization: authorization } };
  if (body === undefined) request.headers.Authorization += ` ${hex(question)}`;
  else request.body = question;
  const response = await fetch(path, request);
  if (response.status === 409 && response.headers.get("Content-Type") === "application/json" && mayBeginAgain) {
    session = undefined; // another process of the agent's
    return sealed(path, body, signal, false);
  }
  if (response.status === 401 && !known) throw new Refused();
  const answer = new Uint8Array(await response.arrayBuffer());
  const about = new Uint8Array([...iv, ...encoded(String(response.status))]);
  const opened = await crypto.subtle.decrypt(
    { name: "AES-GCM", iv: answer.slice(0, 12), additionalData: about }, keys.down, answer.slice(12),
  );
  known = true;
  return [response, new TextDecoder().decode(opened)];
}

let away = false;
let tries = 0;
let again; // the next look whether the agent is back
const listeners = [];
const waiting = []; // for an answer, whatever it is

// Resolves once the agent answers again.
export const answersAgain = () => new Promise((resolve) => { waiting.push(resolve); });

export const isAway = () => away;

// Called with true when the agent stops answering, with false when it answers again.
export const onAway = (listener) => listeners.push(listener);

export async function ask(path, body, patience = PATIENCE_MS) {
  let response, text;
  try {
    [response, text] = await sealed(path, body, AbortSignal.timeout(patience));
  } catch (error) {
    if (error instanceof Refused) {
      set(false);
      throw error;
    }
    session = undefined; // whoever answers next may be another process
    set(true);
    throw new Away();
  }
  set(false);
  if (path.endsWith(".svg") && response.ok) return text;
  const answer = parsed(text);
  if (!response.ok) throw new Error(answer.error || `The agent answered with status ${response.status}.`);
  return answer;
}

function set(gone) {
  clearTimeout(again);
  if (gone) again = setTimeout(look, AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]);
  else tries = 0;
  if (!gone) waiting.splice(0).forEach((resolve) => resolve());
  if (gone === away) return;
  away = gone;
  listeners.forEach((listener) => listener(gone));
}

const look = () => ask("/api/about").catch(() => {}); // either way, `set` is told
