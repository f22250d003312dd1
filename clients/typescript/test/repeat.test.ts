import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError, ServerError } from "../dist/index.js";
import { DEFAULT_REPEAT_LIMITS, RepeatDelays, repeated } from "../dist/http/repeat.js";
import { retryAfter } from "../dist/http/transport.js";

const delaysOf = (random: number, retryAfterMs?: number): (number | undefined)[] => {
  const delays = new RepeatDelays(DEFAULT_REPEAT_LIMITS, () => random);
  return Array.from({ length: 8 }, () => delays.next(retryAfterMs));
};

test("delays are doubled up to the longest one, seven times", () => {
  assert.deepEqual(delaysOf(0), [100, 200, 400, 800, 1_600, 3_200, 5_000, undefined]);
  assert.deepEqual(delaysOf(0.5), [150, 300, 600, 1_200, 2_400, 4_800, 7_500, undefined]);
});

test("a Retry-After of up to 30 s is waited for, a longer one is not", () => {
  assert.equal(delaysOf(0, 2_000)[0], 2_000);
  assert.equal(delaysOf(0, 2_000)[6], 5_000);
  assert.equal(delaysOf(0, 30_000)[0], 30_000);
  assert.equal(delaysOf(0, 30_001)[0], undefined);
});

test("endless delays count a longer Retry-After as 30 s", () => {
  const delays = RepeatDelays.endless(100, 5_000);
  assert.equal(delays.nextEndless(60_000), 30_000);
  for (let count = 0; count < 100; count += 1) {
    const delay = delays.nextEndless();
    assert.ok(delay >= 100 && delay <= 10_000);
  }
});

test("Retry-After has seconds or a date", () => {
  assert.equal(retryAfter("2"), 2_000);
  assert.equal(retryAfter(null), undefined);
  assert.equal(retryAfter("soon"), undefined);
  const inTenSeconds = retryAfter(new Date(Date.now() + 10_000).toUTCString()) ?? 0;
  assert.ok(inTenSeconds > 8_000 && inTenSeconds <= 10_000);
  assert.equal(retryAfter(new Date(0).toUTCString()), 0);
});

const broken = (applied: "no" | "unknown"): ConnectionError => new ConnectionError({ detail: "broken", applied });
const answered = (status: number, applied: "no" | "yes" | "unknown"): ServerError =>
  new ServerError({ status, detail: "x", applied, code: "some_code" });

async function attemptsOf(safety: "safe" | "once", errors: Error[], isRead = false): Promise<{ attempts: number; error: unknown }> {
  let attempts = 0;
  const request = { safety, isRead, limits: DEFAULT_REPEAT_LIMITS, sleep: async () => undefined };
  const attempt = async (): Promise<void> => {
    const error = errors[Math.min(attempts, errors.length - 1)];
    attempts += 1;
    throw error;
  };
  const error = await repeated(request, attempt).catch((caught: unknown) => caught);
  return { attempts, error };
}

test("a request that may be applied is repeated only if that is safe", async () => {
  const cases: [Error, number, number][] = [
    [broken("no"), 8, 8],
    [broken("unknown"), 8, 1],
    [answered(503, "no"), 8, 8],
    [answered(503, "unknown"), 8, 1],
    [answered(408, "no"), 8, 8],
    [answered(502, "unknown"), 8, 1],
    [answered(504, "unknown"), 8, 1],
    [answered(504, "yes"), 1, 1],
    [answered(500, "unknown"), 1, 1],
    [answered(429, "no"), 1, 1],
    [answered(409, "no"), 1, 1],
  ];
  for (const [error, safe, once] of cases) {
    assert.equal((await attemptsOf("safe", [error])).attempts, safe, String(error));
    assert.equal((await attemptsOf("once", [error])).attempts, once, String(error));
  }
});

test("an answer that was lost is not hidden by the last repetition", async () => {
  const [lost, conflict, missing] = [broken("unknown"), answered(409, "no"), answered(404, "no")];
  assert.equal((await attemptsOf("safe", [lost, conflict])).error, lost);
  assert.equal((await attemptsOf("safe", [lost, missing])).error, missing);
  assert.equal((await attemptsOf("safe", [lost, conflict], true)).error, conflict);
  assert.equal((await attemptsOf("safe", [broken("no"), conflict])).error, conflict);
});
