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
const key = keyFromAddress();

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
  const request = { signal: AbortSignal.timeout(patience), headers: { Authorization: `Bearer ${key}` } };
  if (body !== undefined) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, request);
  } catch {
    set(true);
    throw new Away();
  }
  set(false);
  if (path.endsWith(".svg") && response.ok) return response.text();
  const answer = await response.json().catch(() => ({}));
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
