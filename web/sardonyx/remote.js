/** Sessions in a worker that a page has for all of them, so that its own thread is free: the page's side of host.js. */

import { Conversation } from "./caches.js";
import { Tensor, copied } from "./types.js";
import { lent } from "./crew.js";

const PIECE = 1 << 20; // bytes of a bundle that the page's thread copies at a time

/** The worker, which ends when nobody uses it any more. */
export class Host {
  static here = null;

  /** The worker, for somebody who will `leave` it. */
  static take() {
    const host = (Host.here ??= new Host());
    host.users++;
    return host;
  }

  /** A session in the worker; null where the page's policy refuses workers. */
  static async load(bundle, threads) {
    const host = Host.take();
    if (!(await host.isReady)) {
      host.leave();
      return null;
    }
    const session = new RemoteSession(host, bundle);
    try {
      await session.load(threads);
      return session;
    } catch (error) {
      session.end(host);
      throw session.failure ?? error;
    }
  }

  constructor() {
    this.users = 0;
    this.sessions = new Set();
    this.helpers = [];
    this.isReady = new Promise((resolve) => {
      try {
        this.worker = new Worker(new URL("./host.js", import.meta.url), { type: "module", name: "sardonyx-host" });
        this.worker.onmessage = ({ ports: [port] }) => (port ? this.helpers.push(lent(port)) : resolve(true));
        this.worker.onerror = ({ message }) => {
          resolve(false);
          if (!this.sessions.size) return; // it did not start
          this.end(); // whoever loads next gets another
          this.sessions.forEach((session) => session.fail(new Error(`the worker of the session failed (${message}): load it anew`)));
        };
      } catch {
        resolve(false);
      }
    });
  }

  leave() {
    if (!--this.users) this.end();
  }

  end() {
    [this.worker, ...this.helpers].forEach((worker) => worker?.terminate());
    if (Host.here === this) Host.here = null;
  }
}

/** What a `Session` is, for one in the worker. */
class RemoteSession {
  constructor(host, bundle) {
    const { port1, port2 } = new MessageChannel();
    this.target = "wasm";
    this.bundle = bundle;
    [this.inputs, this.outputs] = bundle.ports;
    this.host = host;
    this.port = port1;
    this.count = 0;
    this.asked = new Map();
    this.port.onmessage = ({ data }) => this.hear(data);
    host.sessions.add(this);
    host.worker.postMessage({ port: port2 }, [port2]);
  }

  /** What the worker does with `given`; what it tells of the session is noted. */
  ask(what, given, transfer = []) {
    if (this.failure) return Promise.reject(this.failure);
    return new Promise((resolve, reject) => {
      const number = this.count++;
      this.port.postMessage({ number, what, given }, transfer);
      this.asked.set(number, { resolve, reject });
    });
  }

  hear({ number, result, error, told, wants }) {
    if (wants === "piece") return void this.give();
    if (wants === "end") return this.bundle.stream.close();
    const { resolve, reject } = this.asked.get(number);
    this.asked.delete(number);
    Object.assign(this, told);
    if (error) reject(error);
    else resolve(result);
  }

  async give() {
    try {
      const piece = (await this.bundle.stream.next(PIECE))?.slice() ?? null;
      this.port.postMessage({ piece }, piece ? [piece.buffer] : []);
    } catch (error) {
      this.failure = error;
      this.port.postMessage({ failure: String(error) });
    }
  }

  load(threads) {
    const { manifest, name, stream } = this.bundle;
    return this.ask("load", { manifest, name, position: stream.position, threads });
  }

  async run(feeds = {}, names, _, caches) {
    if (!this.host) throw new Error("this session was released");
    const [copies, moved] = copied(feeds);
    const found = await this.ask("run", { feeds: copies, names, caches }, moved);
    return Object.fromEntries(found.map(([name, type, data, dims]) => [name, new Tensor(type, data, dims)]));
  }

  async caches(batch = 1) {
    const number = await this.ask("caches", { batch });
    const runs = (feeds, names, length, count) => this.run(feeds, names, null, { number, length, count });
    return new Conversation(runs, () => this.host && this.ask("leave", { number }));
  }

  release() {
    if (!this.host) return Promise.resolve();
    const { host } = this;
    this.host = null;
    return this.ask("release").catch(() => {}).finally(() => this.end(host)); // after the run that is under way
  }

  fail(error) {
    this.failure = error;
    this.asked.forEach(({ reject }) => reject(error));
    this.asked.clear();
  }

  end(host) {
    this.port.close();
    host.sessions.delete(this);
    host.leave();
  }
}
