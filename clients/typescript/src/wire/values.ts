/**
 * Durations and instants of requests.
 */

import { invalid } from "../errors.js";

/** An instant: a `Date`, or a text of RFC 3339 with an offset, such as `2027-01-01T09:00:00+01:00`. */
export type Instant = Date | string;

/**
 * A duration in a policy, a schedule or a retry policy: `1500ms`, `90s`, `1.5h`, `1h30m`, `3d`, or ISO 8601 such as
 * `PT5M`. A day has 24 hours.
 */
export type DurationText = string;

/** Writes a number of milliseconds. Fractions are rounded up. */
export function durationText(field: string, ms: number): string {
  const whole = Math.ceil(ms);
  if (typeof ms !== "number" || !Number.isSafeInteger(whole) || whole < 0) {
    throw invalid(field, `is a number of milliseconds of 0 or more, not ${String(ms)}`);
  }
  return `${whole}ms`;
}

/** Writes a number of milliseconds, if there is one. */
export function optionalDuration(field: string, ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : durationText(field, ms);
}

/** Writes an instant, if there is one. */
export function optionalInstant(field: string, at: Instant | undefined): string | number | undefined {
  if (!(at instanceof Date)) {
    return at;
  }
  const ms = at.getTime();
  if (Number.isNaN(ms)) {
    throw invalid(field, "is no valid Date");
  }
  return ms;
}
