// Keeps the files of the page, so that it works without a network. `playground/build` writes the
// two lines above, the version and the files: other bytes are another version.

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = async () => (await caches.keys()).filter((name) => name !== VERSION);
  event.waitUntil(old().then((names) => Promise.all(names.map((name) => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  event.respondWith(caches.open(VERSION).then((cache) => cache.match(event.request)).then((kept) => kept ?? fetch(event.request)));
});
