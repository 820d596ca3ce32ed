// Opens the page without the agent: it keeps the page and its scripts, which hold nothing that was typed, and gives them
// to the browser when the agent does not answer. While the agent is there its answer counts, so that an update of the
// agent is never run with an old script. Questions to the agent (/api/) are none of its business.

const SHELL = "nightjar-shell";
const FILES = ["/"{% for file in files %}, "/static/{{ file }}"{% endfor %}];

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(SHELL).then((shell) => shell.addAll(FILES)));
});
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  const ours = origin === location.origin && (pathname === "/" || pathname.startsWith("/static/"));
  if (event.request.method === "GET" && ours) event.respondWith(answer(event.request, pathname));
});

async function answer(request, pathname) {
  const shell = await caches.open(SHELL);
  try {
    const fresh = await fetch(request);
    if (fresh.ok) await shell.put(pathname, fresh.clone());
    return fresh;
  } catch (error) {
    const kept = await shell.match(pathname);
    if (kept === undefined) throw error;
    return kept;
  }
}
