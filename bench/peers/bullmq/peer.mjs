// This program is BullMQ as a subject of the bench. Package subject of the bench says what a subject is.
//
// Its settings were tried on 2026-11-21, on 2 cores with Node 20.20, ioredis 6.0.0 and Redis 7.0.15, by draining 30,000 jobs
// that do nothing; each figure is jobs a second, the best of three interleaved runs on a machine that others used as well:
//
//   one Worker, concurrency 100                20,400   chosen
//   one Worker, concurrency 50, and 250        19,900, and 20,400
//   two Workers of 50 each, one connection     20,300   and 20,900 for four of 25: the difference is inside the spread
//   an event stream that is kept empty         19,900   so it stays at its default of 10,000 events
//   ioredis with enableAutoPipelining          12,000
//   two threads with a Worker each             as one: Node and Redis together fill both cores
//   addBulk of 100, four at once               43,000   one at a time 25,500; one of 1,000 at a time 27,700
//   10 producers over one connection           15,000   12,300 over one each, 11,900 with enableAutoPipelining
//
// A job is removed when it is done, as with the other systems; left to its default, BullMQ keeps them all. What is not set
// is BullMQ's default: locks of 30 s, a look for stalled jobs every 30 s, and a wait of at most 5 s on an empty queue.

import { measures } from './measures.mjs';
import { Talk } from './talk.mjs';

/** Does the bench's task and answers the exit status. */
async function run(talk) {
  try {
    const task = await talk.task();
    const measure = measures[task.measure];
    if (!measure) {
      throw new Error(`measure "${task.measure}": this subject knows ${Object.keys(measures).join(', ')}`);
    }
    await talk.say('done', await measure(task, talk));
    return 0;
  } catch (error) {
    console.error(error);
    await talk.say('failed', { text: error.message });
    return 1;
  }
}

// exit, for a worker that is idle would hold the process for seconds, and nobody needs what it does.
process.exit(await run(new Talk(process.stdin, process.stdout)));
