import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { now, pause, sleepUntil, wall } from './clock.mjs';
import * as setup from './setup.mjs';
import { PATIENCE, Tally } from './tally.mjs';

/** How far ahead of its instant a future job is stored at the least, in milliseconds: storing is never what is late. */
const NOTICE = 3000;

/** A rate, in jobs a millisecond, at which they are stored even on a slow machine. */
const SLOWEST_PUSH = 5;

/** For how many milliseconds a worker has nothing to do before it counts as idle. */
const IDLE = 1000;

/** How long a victim's job takes, in milliseconds: far longer than the bench needs to kill this process. */
const HELD = 60_000;

const RECOVER = 'recover';

/**
 * The measures of the bench, by name. Package subject of the bench says what each is; each begins when the bench has read
 * ready, and answers with the fields of done.
 */
export const measures = { version, drain, enqueue, bulk, push, latency, schedule, burst, victim, survivor };

async function version(task, talk) {
  await talk.sayAndWait('ready');
  return { settings: `BullMQ ${versionOf('bullmq')}, ioredis ${versionOf('ioredis')}, Node ${process.versions.node}` };
}

function versionOf(library) {
  const entry = createRequire(import.meta.url).resolve(library);
  const root = entry.slice(0, entry.lastIndexOf(`node_modules/${library}/`));
  return JSON.parse(readFileSync(`${root}node_modules/${library}/package.json`, 'utf8')).version;
}

/** A job counts when its "completed" has come: Redis has answered that it is done with, and so no process runs it again. */
async function drain(task, talk) {
  const tally = new Tally(task.jobs);
  const queue = await setup.openQueue(task);
  const handlers = { Noop: async (job) => tally.began(job.data[0]) };
  const worker = await setup.openWorker(task, handlers, setup.workerOptions(task));
  worker.on('completed', () => tally.done());
  await talk.sayAndWait('ready');
  await pushNoops(task, talk, queue);
  const seconds = await time(async () => {
    worker.run();
    await tally.wait(task.jobs + PATIENCE); // a thousand a second is slow
  });
  return { seconds, settings: setup.workerSettings(task) };
}

async function pushNoops(task, talk, queue) {
  const seconds = await time(() => setup.pushAll(queue, task.jobs, setup.noop));
  await talk.sayAndWait('pushed', { seconds });
}

async function enqueue(task, talk) {
  const queue = await setup.openQueue(task);
  await talk.sayAndWait('ready');
  const producer = async (_, first) => {
    for (let n = first; n < task.jobs; n += task.producers) await queue.add('Noop', [n]);
  };
  const seconds = await time(() => Promise.all(Array.from({ length: task.producers }, producer)));
  return { seconds, settings: `${task.producers} producers over one connection` };
}

async function bulk(task, talk) {
  const queue = await setup.openQueue(task);
  await talk.sayAndWait('ready');
  const seconds = await time(() => setup.pushAll(queue, task.jobs, setup.noop));
  return { seconds, settings: setup.bulkSettings };
}

async function push(task, talk) {
  const queue = await setup.openQueue(task);
  await talk.sayAndWait('ready');
  const welcome = (n) => ({ name: 'WelcomeEmail', data: [n, 'welcome', { locale: 'en' }] });
  const seconds = await time(() => setup.pushAll(queue, task.jobs, welcome));
  await talk.sayAndWait('pushed', { seconds });
  return { seconds, settings: 'default options of a job' };
}

async function latency(task, talk) {
  const { queue, tally } = await timed(task, talk, Math.floor(task.rate * task.seconds), now);
  const period = 1000 / task.rate;
  const begin = now() + IDLE;
  tally.due.forEach((_, n) => (tally.due[n] = begin + (n + Math.random()) * period));
  const sends = [];
  const behind = [];
  for (const [n, instant] of tally.due.entries()) {
    await sleepUntil(instant);
    behind.push(now() - instant);
    sends.push(queue.add('Noop', [n])); // awaited at the end: a push that is slow holds up none of the next
  }
  await Promise.all(sends);
  const sentLate = behind.sort((a, b) => a - b)[behind.length >> 1] * 1000;
  return { ...(await finish(task, tally, 0)), extra: { sent_late_us: sentLate } };
}

async function schedule(task, talk) {
  return scheduled(task, talk, Math.floor(task.rate * task.seconds), (n, begin) => begin + (n * 1000) / task.rate);
}

async function burst(task, talk) {
  const storing = task.jobs / SLOWEST_PUSH + 1000;
  return scheduled(task, talk, task.jobs, (_, begin) => begin + storing);
}

/** Runs a worker, stores jobs for the instants that dueAt says, and answers how late they began. */
async function scheduled(task, talk, jobs, dueAt) {
  const { queue, tally } = await timed(task, talk, jobs, wall);
  const stored = Date.now();
  tally.due.forEach((_, n) => (tally.due[n] = Math.round(dueAt(n, stored + NOTICE)))); // it knows whole milliseconds
  // The delay counts from the job's timestamp, so that one clock reading makes it exact.
  await setup.pushAll(queue, jobs, (n) => ({
    ...setup.noop(n),
    opts: { timestamp: stored, delay: tally.due[n] - stored },
  }));
  if (wall() > tally.due[0]) throw new Error(`storing ${jobs} jobs took until they were due: ask for fewer`);
  return finish(task, tally, tally.due[jobs - 1] - wall());
}

/** Runs a worker that notes by that clock when jobs begin, and returns when it has run one and then been idle. */
async function timed(task, talk, jobs, clock) {
  const tally = new Tally(jobs);
  const up = new Tally(1);
  const handlers = {
    Noop: async (job) => {
      tally.began(job.data[0], clock());
      tally.done();
    },
    WarmUp: async () => {
      up.began(0);
      up.done();
    },
  };
  const queue = await setup.openQueue(task);
  const worker = await setup.openWorker(task, handlers, setup.workerOptions(task));
  await talk.sayAndWait('ready');
  worker.run();
  await queue.add('WarmUp');
  await up.wait();
  await pause(IDLE);
  return { queue, tally };
}

async function finish(task, tally, ms) {
  await tally.wait(ms + PATIENCE);
  return { latencies_us: tally.latencies(), settings: setup.workerSettings(task) };
}

async function victim(task, talk) {
  const tally = new Tally(task.jobs);
  const handlers = {
    Noop: async (job) => {
      tally.began(job.data[0]);
      tally.done();
      await pause(HELD);
    },
  };
  const queue = await setup.openQueue(task, RECOVER);
  const worker = await setup.openWorker(task, handlers, { concurrency: task.concurrency }, RECOVER);
  await talk.sayAndWait('ready');
  await setup.pushAll(queue, task.jobs, setup.noop);
  worker.run();
  await tally.wait();
  await talk.sayAndWait('holding');
  return {};
}

/** Lock, stalled check and concurrency are BullMQ's defaults: how soon they find the dead is what is measured. */
async function survivor(task, talk) {
  const handlers = { Noop: async (job) => talk.say('ran', { jid: job.id, unix_ns: Math.round(wall() * 1e6) }) };
  const worker = await setup.openWorker(task, handlers, {}, RECOVER);
  await talk.sayAndWait('ready');
  await worker.run(); // until the bench is done with it
  return {};
}

/** How many seconds the work took. */
async function time(work) {
  const began = now();
  await work();
  return (now() - began) / 1000;
}
