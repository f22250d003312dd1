import assert from "node:assert/strict";
import { test } from "node:test";

import { JsonText } from "../dist/index.js";
import { readJson, writeJson } from "../dist/json/exact.js";
import { elementsOf, memberOf } from "../dist/json/scan.js";

test("integers of 64 bits pass exactly", () => {
  const text = '{"a":9007199254740993,"b":[-9223372036854775808,18446744073709551615],"c":1.5,"d":"12345678901234567890","e":9007199254740991}';
  const value = readJson(text, "bigint") as Record<string, unknown>;
  assert.deepEqual(value, {
    a: 9007199254740993n, b: [-9223372036854775808n, 18446744073709551615n], c: 1.5, d: "12345678901234567890", e: 9007199254740991,
  });
  assert.equal(writeJson(value), text);
  assert.equal((readJson(text, "number") as { a: number }).a, 9007199254740992);
});

test("numbers in strings, fractions and exponents are no integers", () => {
  const text = String.raw`{"s":"\"9007199254740993","f":9007199254740993.5,"e":12345678901234567890e1,"\\":9007199254740993}`;
  assert.deepEqual(readJson(text, "bigint"), {
    s: '"9007199254740993', f: 9007199254740993.5, e: 12345678901234567890e1, "\\": 9007199254740993n,
  });
});

test("what JSON does not have is refused as by JSON.stringify", () => {
  const loop: Record<string, unknown> = { n: 1n };
  loop["self"] = loop;
  assert.throws(() => writeJson(loop), TypeError);
  assert.equal(writeJson(undefined), undefined);
  assert.equal(writeJson(new JsonText("[1.0]")), "[1.0]");
  assert.throws(() => writeJson({ part: new JsonText("1") }), /whole payload/);
  assert.throws(() => readJson("{", "bigint"), SyntaxError);
});

test("values are found in a text", () => {
  const text = String.raw` { "a" : {"jobs":[1]}, "\u006aobs" : [ {"x":"]}\\"} , 1.0,[] ] , "z":null}`.trim();
  const jobs = memberOf(text, 0, "jobs");
  assert.ok(jobs);
  const elements = elementsOf(text, jobs.start).map(({ start, end }) => text.slice(start, end));
  assert.deepEqual(elements, [String.raw`{"x":"]}\\"}`, "1.0", "[]"]);
  assert.equal(memberOf(text, 0, "nothing"), undefined);
});
