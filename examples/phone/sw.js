/** Keeps all that the page loads, so that it starts without a network; a new VERSION replaces what was kept. */

const VERSION = "shapes-1";
const FILES = [
  "index.html", "phone.js", "phone.css", "manifest.webmanifest", "icon.svg", "shapes.sdx",
  ...["runtime", "host", "helper", "downloads", "picture", "vision"].map((name) => `sardonyx/${name}.js`),
];

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(clear()));
addEventListener("fetch", (event) => {
  const isOurs = event.request.method === "GET" && new URL(event.request.url).origin === location.origin;
  if (isOurs) event.respondWith(answer(event.request));
});

async function keep() {
  const cache = await caches.open(VERSION);
  await cache.addAll(FILES.map((file) => new Request(file, { cache: "reload" }))); // all of one release
  await skipWaiting();
}

async function clear() {
  const others = (await caches.keys()).filter((name) => name.startsWith("shapes-") && name !== VERSION);
  await Promise.all(others.map((name) => caches.delete(name)));
  await clients.claim();
}

async function answer(request) {
  const cache = await caches.open(VERSION);
  const isVisit = request.mode === "navigate"; // by the folder's name, too
  return (await cache.match(isVisit ? "index.html" : request, { ignoreSearch: true })) ?? fetch(request);
}
