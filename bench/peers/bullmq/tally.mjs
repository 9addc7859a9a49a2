import { pause } from './clock.mjs';

/** How long the last of the jobs may take, in milliseconds, counted from when all of them could have run. */
export const PATIENCE = 30_000;

/** A set of numbered jobs, of which each is to run exactly once, and how long after its instant each began. */
export class Tally {
  #runs;
  #late;
  #left;
  #allDone;
  #resolve;

  constructor(jobs) {
    /** The instant of each job, in milliseconds, which is written before the job is stored. */
    this.due = new Float64Array(jobs);
    this.#late = new Float64Array(jobs);
    this.#runs = new Uint8Array(jobs);
    this.#left = jobs;
    this.#allDone = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Notes that a job has begun at that instant. */
  began(number, at = 0) {
    this.#late[number] = at - this.due[number];
    this.#runs[number] += 1;
  }

  /** Counts a job as done with. */
  done() {
    this.#left -= 1;
    if (this.#left === 0) this.#resolve();
  }

  /** Returns when as many were done as there are jobs, and makes sure that each has run once. */
  async wait(ms = PATIENCE) {
    const tooLate = pause(ms).then(() => {
      throw new Error(`${this.#left} of ${this.#runs.length} jobs are not done after ${Math.round(ms)} ms`);
    });
    await Promise.race([this.#allDone, tooLate]);
    const wrong = this.#runs.findIndex((runs) => runs !== 1);
    if (wrong >= 0) throw new Error(`job ${wrong} ran ${this.#runs[wrong]} times`);
  }

  /** The microseconds from each job's instant to its beginning. */
  latencies() {
    return Array.from(this.#late, (ms) => Math.round(ms * 1000));
  }
}
