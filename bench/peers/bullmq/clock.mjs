import { setImmediate, setTimeout } from 'node:timers/promises';

/** Milliseconds by the clock that nobody sets, to the microsecond: what is not compared with an instant in Redis. */
export const now = () => performance.now();

/** Milliseconds since 1970, to the microsecond: Date.now() knows only whole milliseconds, and cuts off the rest. */
export const wall = () => performance.timeOrigin + performance.now();

/** Returns after so many milliseconds, to a millisecond or two. */
export const pause = (ms) => setTimeout(ms);

/**
 * The last stretch before an instant, in milliseconds, in which the event loop is turned and not slept in: Node's timers
 * are late by up to a millisecond, and that much would be Node's and not BullMQ's.
 */
const SPIN = 2;

/** Returns at that instant of now(). */
export async function sleepUntil(instant) {
  const rest = instant - now() - SPIN;
  if (rest > 0) await pause(rest);
  while (now() < instant) await setImmediate();
}
