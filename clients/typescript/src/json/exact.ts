/**
 * JSON whose integers stay exact.
 *
 * `JSON.parse` reads an integer beyond 2^53 as the nearest `number`, and `JSON.stringify` refuses a `bigint`. These two
 * functions read and write such integers as `bigint`, and do the same as the functions of the language otherwise.
 */

import { randomUUID } from "node:crypto";

import { endOfNumber, endOfString, isNumberStart, QUOTE } from "./scan.js";

/** How integers beyond 2^53 are read: as the nearest `number`, as `JSON.parse` does, or exactly, as `bigint`. */
export type IntegerMode = "number" | "bigint";

/** Digits that a safe integer can have: a text without so many digits in a row has no unsafe integer. */
const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d{16,}$/;

/**
 * A payload or result that is JSON text already. It is sent as it is, without being parsed.
 *
 * It stands for a whole payload or result and cannot be a part of another value.
 */
export class JsonText {
  /** @param text valid JSON; the server refuses other text */
  constructor(readonly text: string) {}

  /** @internal */
  toJSON(): never {
    throw new TypeError("a JsonText is a whole payload or result, and no part of one");
  }
}

/**
 * Writes a value as JSON. A `bigint` becomes an integer.
 *
 * Returns `undefined` for a value that JSON does not have: `undefined`, a function or a symbol.
 *
 * @throws TypeError if the value refers to itself
 */
export function writeJson(value: unknown): string | undefined {
  if (value instanceof JsonText) {
    return value.text;
  }
  try {
    return JSON.stringify(value);
  } catch (error) {
    // A bigint, or a value that refers to itself, which the second try refuses too.
    if (error instanceof TypeError) {
      return writeWithIntegers(value);
    }
    throw error;
  }
}

/** The marker is random, so no text of the value can be mistaken for an integer. */
function writeWithIntegers(value: unknown): string | undefined {
  const marker = randomUUID();
  const text = JSON.stringify(value, (_name, part: unknown) =>
    typeof part === "bigint" ? marker + part.toString() : part,
  ) as string | undefined;
  return text?.replace(new RegExp(`"${marker}(-?\\d+)"`, "g"), "$1");
}

/**
 * Reads JSON.
 *
 * @throws SyntaxError if the text is not JSON
 */
export function readJson(text: string, integers: IntegerMode): unknown {
  if (integers === "number" || !LONG_NUMBER.test(text)) {
    return JSON.parse(text);
  }
  const marker = randomUUID();
  return JSON.parse(markIntegers(text, marker), (_name, part: unknown) =>
    typeof part === "string" && part.startsWith(marker) ? BigInt(part.slice(marker.length)) : part,
  );
}

/** Replaces each integer that a `number` cannot hold by a string that begins with the marker. */
function markIntegers(text: string, marker: string): string {
  const parts: string[] = [];
  let copied = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
    } else if (isNumberStart(code)) {
      const end = endOfNumber(text, at);
      const number = text.slice(at, end);
      if (isUnsafeInteger(number)) {
        parts.push(text.slice(copied, at), `"${marker}${number}"`);
        copied = end;
      }
      at = end;
    } else {
      at += 1;
    }
  }
  parts.push(text.slice(copied));
  return parts.join("");
}

function isUnsafeInteger(number: string): boolean {
  return INTEGER.test(number) && !Number.isSafeInteger(Number(number));
}
