import { createInterface } from 'node:readline';

/**
 * The conversation with the bench: one Task comes in on a line, Events go out, one a line.
 *
 * When the input ends, the bench is gone, and so is this process: nobody would read what it still found out.
 */
export class Talk {
  #output;
  #lines = []; // read, and nobody has waited for them yet
  #waiting = null; // who waits for a line

  constructor(input, output) {
    this.#output = output;
    const lines = createInterface({ input });
    lines.on('line', (line) => this.#hear(line));
    lines.on('close', () => process.exit(1));
  }

  /** Returns the task, which is the first line. */
  async task() {
    return JSON.parse(await this.#line());
  }

  /** Says one event; returns when all of it is in the pipe, which holds only 64 KiB that nobody has read. */
  async say(event, fields = {}) {
    await new Promise((resolve) => {
      this.#output.write(`${JSON.stringify({ event, ...fields })}\n`, resolve);
    });
  }

  /** Says one event and returns when the bench has said to go on. */
  async sayAndWait(event, fields = {}) {
    await this.say(event, fields);
    await this.#line();
  }

  #hear(line) {
    if (this.#waiting) {
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting(line);
    } else {
      this.#lines.push(line);
    }
  }

  async #line() {
    if (this.#lines.length > 0) return this.#lines.shift();
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}
