/** What was asked of a GPU and not submitted yet: a run is one submission, unless it takes long. */

/** Milliseconds that a submission may take: systems end what keeps a GPU busy for seconds. */
export const limits = { submission: 50 };
const MOST_WAITING = 1024; // commands
const OF_A_TURN = 5e-6; // of a loop, in a thread on a slow adapter
const OF_A_BYTE = 1e-7;

/** The milliseconds that a dispatch takes on a slow adapter. */
export const estimate = (threads, turns, nbytes) => Math.max(threads * turns * OF_A_TURN, nbytes * OF_A_BYTE);

/** Dispatches, in passes of a submission each: estimated at first, then as a run took that was waited for. */
export class Work {
  constructor(params, dispatches) {
    this.params = params;
    this.dispatches = dispatches;
    this.times = 0;
    this.split(1);
  }

  /** Have taken so long at most. A first time, in which drivers compile, says nothing. */
  learn(took) {
    this.times++;
    if (this.times === 2 || (this.times > 2 && took < this.took)) {
      this.took = took;
      this.split(took / Math.max(1e-6, this.dispatches.reduce((sum, { cost }) => sum + cost, 0)));
    }
  }

  split(factor) {
    this.passes = [{ dispatches: [], cost: 0 }];
    for (const dispatch of this.dispatches) {
      const cost = factor * dispatch.cost;
      const last = this.passes.at(-1);
      if (!last.dispatches.length || last.cost + cost <= limits.submission) {
        last.dispatches.push(dispatch);
        last.cost += cost;
      } else this.passes.push({ dispatches: [dispatch], cost });
    }
  }
}

/** Commands in order, each client's in submissions of its own. `counts` are those, and readings. */
export class Queue {
  constructor(client) {
    this.client = client;
    this.device = client.device;
    this.encoder = null;
    this.cost = this.count = 0;
    this.running = [];
    this.counts = { submits: 0, reads: 0 };
  }

  /** What takes a command that may cost so much, after all that came before. */
  next(cost = 0) {
    const { gpu } = this.client;
    if (gpu.waiting !== this || this.cost + cost > limits.submission || this.count === MOST_WAITING) gpu.flush();
    gpu.waiting = this;
    this.cost += cost;
    this.count++;
    return (this.encoder ??= this.device.createCommandEncoder());
  }

  run(work) {
    if (!this.running.length) this.began = performance.now();
    this.running.push(work);
    for (const { dispatches, cost } of work.passes) {
      const pass = this.next(cost).beginComputePass();
      for (const { pipeline, group, offset, x, y } of dispatches) {
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.setBindGroup(1, work.params, [offset]);
        pass.dispatchWorkgroups(x, y);
      }
      pass.end();
    }
  }

  copy(from, start, to, target, nbytes) {
    this.next().copyBufferToBuffer(from, start, to, target, nbytes);
  }

  submit() {
    this.counts.submits++;
    this.client.watch(() => this.device.queue.submit([this.encoder.finish()]));
    this.encoder = null;
    this.cost = this.count = 0;
  }

  /** Copies of ranges `[buffer, offset, nbytes]`, of multiples of 4 bytes, which are read together. */
  async read(ranges) {
    const size = ranges.reduce((sum, [, , nbytes]) => sum + nbytes, 0);
    const { running, began } = this;
    this.running = [];
    if (!size) return ranges.map(() => new ArrayBuffer(0));
    const staging = this.device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    let start = 0;
    for (const [buffer, offset, nbytes] of ranges) {
      if (nbytes) this.copy(buffer, offset, staging, start, nbytes);
      start += nbytes;
    }
    this.client.gpu.flush();
    this.counts.reads++;
    await staging.mapAsync(GPUMapMode.READ).catch((error) => {
      staging.destroy();
      throw error;
    });
    if (running.length === 1) running[0].learn(performance.now() - began);
    const mapped = staging.getMappedRange();
    start = 0;
    const found = ranges.map(([, , nbytes]) => mapped.slice(start, (start += nbytes)));
    staging.destroy();
    return found;
  }
}
