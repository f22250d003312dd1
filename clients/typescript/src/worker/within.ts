import { TIMER_MAX_MS } from "../timers.js";

/** Waits for a promise, but not longer than so many milliseconds. Returns whether it was fulfilled in time. */
export async function within(limitMs: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(limitMs, TIMER_MAX_MS));
  });
  try {
    return await Promise.race([promise.then(() => true), limit]);
  } finally {
    clearTimeout(timer);
  }
}
