import { Redis } from 'ioredis';
import { Queue, Worker } from 'bullmq';

/** The fastest of 25, 50, 100, 250 and 500. */
export const BEST_CONCURRENCY = 100;

/** The size of an addBulk, and how many are on their way at once: the fastest of those tried. */
const BULK = 100;
const BULKS_AT_ONCE = 4;

/** In words, for the bench's table. */
export const bulkSettings = `addBulk of ${BULK}, ${BULKS_AT_ONCE} at once, one connection`;

/** A connection as BullMQ's documentation has it for workers: a command is retried for ever, not twenty times. */
const connect = (url) => new Redis(url, { maxRetriesPerRequest: null });

/** Opens a queue, to store jobs in. */
export async function openQueue(task, name = 'bench') {
  const queue = new Queue(name, { connection: connect(task.url) });
  await queue.waitUntilReady();
  return queue;
}

/**
 * Opens a worker of the queue that calls handlers by the name of the job. It takes nothing before its run() is called.
 * Options that are not given are BullMQ's defaults.
 */
export async function openWorker(task, handlers, options = {}, name = 'bench') {
  const worker = new Worker(name, (job) => handlers[job.name](job), {
    connection: connect(task.url),
    autorun: false,
    ...options,
  });
  worker.on('error', (error) => console.error(error));
  await worker.waitUntilReady();
  return worker;
}

/** The options of a worker that is measured: a job that is done leaves nothing behind, as with everybody else. */
export function workerOptions(task) {
  return { concurrency: task.best ? BEST_CONCURRENCY : task.concurrency, removeOnComplete: { count: 0 } };
}

/** The same in words. */
export function workerSettings(task) {
  const { concurrency } = workerOptions(task);
  return `concurrency ${concurrency}, one Worker, removeOnComplete, default lock`;
}

/** Stores so many jobs in bulk; make(n) is the n-th as addBulk takes it. */
export async function pushAll(queue, jobs, make) {
  let next = 0;
  const push = async () => {
    while (next < jobs) {
      const first = next;
      next = Math.min(jobs, next + BULK);
      await queue.addBulk(Array.from({ length: next - first }, (_, index) => make(first + index)));
    }
  };
  await Promise.all(Array.from({ length: BULKS_AT_ONCE }, push));
}

/** The job that does nothing. */
export const noop = (number) => ({ name: 'Noop', data: [number] });
