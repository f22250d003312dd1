/**
 * Reads durations as the server does, except ISO 8601.
 */

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const WHOLE = /^(\d+(\.\d+)?(ms|s|m|h|d))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;

/** The milliseconds of a text such as `1h30m`; `undefined` if it is no duration. */
export function parseDuration(text: unknown): number | undefined {
  if (typeof text !== "string" || !WHOLE.test(text)) {
    return undefined;
  }
  let ms = 0;
  for (const [, number, unit] of text.matchAll(PART)) {
    ms += Number(number) * (UNITS[unit as string] as number);
  }
  return Math.ceil(ms);
}
