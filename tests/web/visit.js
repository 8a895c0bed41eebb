// For tests: visit(given), when it is ready.
globalThis.ready = import("./visit.mjs").then(({ visit }) => Object.assign(globalThis, { visit }));
