/** Downloads of large bundles: they go on where a connection broke or fell silent, and a bundle may lie in several files. */

const TRIES = 5; // without a byte between
const REST = 250; // milliseconds before the second; twice as many before each of the others
const SILENCE = 30_000; // milliseconds without a byte, after which a connection counts as broken

/** What is asked of the network, or a failure. */
function heard(asked) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(reject, SILENCE, new TypeError("nothing came for 30 s"))));
  return Promise.race([asked, late]).finally(() => clearTimeout(timer));
}

/**
 * A reader of a response of `total` bytes that asks for the rest after a cut, if the server told by an ETag, or a date,
 * which file it is, and gives the same one. `options` are those of the first request.
 */
export function resuming(response, total, options) {
  const { signal } = options;
  const mark = markOf(response);
  let reader = response.body.getReader();
  let at = 0;
  let tries = 0;

  async function resumed(cause) {
    for (; mark && tries < TRIES && !signal?.aborted; tries++) {
      if (tries) await new Promise((done) => setTimeout(done, REST * 2 ** (tries - 1)));
      const isOwn = new URL(response.url).origin === globalThis.location?.origin; // elsewhere it would need permission
      const headers = new Headers(options.headers);
      headers.set("Range", `bytes=${at}-`);
      if (isOwn) headers.set("If-Range", mark);
      const rest = await heard(fetch(response.url, { ...options, headers, integrity: "" })).catch(() => null);
      if (!rest || rest.status >= 500) continue;
      if (rest.status === 206 && markOf(rest) === mark) return void ((reader = rest.body.getReader()), tries++);
      rest.body?.cancel().catch(() => {});
      break; // there are no ranges, or it is another file by now
    }
    throw signal?.aborted ? signal.reason : cause;
  }

  return {
    async read() {
      for (;;) {
        const piece = await heard(reader.read()).catch((error) => ({ error }));
        if (piece.value) {
          at += piece.value.length;
          tries = 0;
          return piece;
        }
        if (at >= total) return { done: true };
        reader.cancel().catch(() => {});
        await resumed(piece.error ?? new TypeError(`${response.url} ended after ${at} of ${total} bytes`));
      }
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

/** What tells a file from other ones at its address; "" where nothing does. */
function markOf({ headers }) {
  const etag = headers.get("etag");
  return etag && !etag.startsWith("W/") ? etag : (headers.get("last-modified") ?? "");
}

/** A reader of several files, one after the other; `open` gives the stream of one. */
export function joined(sources, open) {
  const left = [...sources];
  let current;
  return {
    async read() {
      for (;;) {
        const piece = await current?.read();
        if (piece?.value) return piece;
        if (!left.length) return { done: true };
        current = (await open(left.shift())).reader;
      }
    },
    cancel: (reason) => current?.cancel?.(reason) ?? Promise.resolve(),
  };
}
