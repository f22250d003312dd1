/**
 * Finds the places of values in a text that is valid JSON, without reading them.
 */

export const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;
const MINUS = 0x2d;

/** The place of a value: from its first character up to the character behind it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A number begins with a digit or a minus. */
export function isNumberStart(code: number): boolean {
  return code === MINUS || (code >= 0x30 && code <= 0x39);
}

/** The place behind the string that begins at `start`. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) {
      return text.length;
    }
    let backslashes = 0;
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) {
      backslashes += 1;
    }
    at = quote + 1;
    if (backslashes % 2 === 0) {
      return at;
    }
  }
}

/** The place behind the number that begins at `start`. */
export function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && isNumberPart(text.charCodeAt(at))) {
    at += 1;
  }
  return at;
}

function isNumberPart(code: number): boolean {
  // Digits, + - . E e
  return isNumberStart(code) || code === 0x2b || code === 0x2e || code === 0x45 || code === 0x65;
}

/** The place behind the value that begins at `start`. */
export function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) {
    return endOfString(text, start);
  }
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
    return endOfNested(text, start);
  }
  let at = start;
  while (at < text.length && !isScalarEnd(text.charCodeAt(at))) {
    at += 1;
  }
  return at;
}

function endOfNested(text: string, start: number): number {
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    at += 1;
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      depth += 1;
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      depth -= 1;
      if (depth === 0) {
        return at;
      }
    }
  }
  return at;
}

function isScalarEnd(code: number): boolean {
  return code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || isSpace(code);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (isSpace(text.charCodeAt(at))) {
    at += 1;
  }
  return at;
}

/** The place of a member of the object that begins at `start`; `undefined` if there is none with this name. */
export function memberOf(text: string, start: number, name: string): Span | undefined {
  let at = skipSpace(text, start + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const nameEnd = endOfString(text, at);
    const value = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = endOfValue(text, value);
    if (JSON.parse(text.slice(at, nameEnd)) === name) {
      return { start: value, end };
    }
    at = nextPart(text, end);
  }
  return undefined;
}

/** The places of the elements of the array that begins at `start`. */
export function elementsOf(text: string, start: number): Span[] {
  const elements: Span[] = [];
  let at = skipSpace(text, start + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_ARRAY) {
    const end = endOfValue(text, at);
    elements.push({ start: at, end });
    at = nextPart(text, end);
  }
  return elements;
}

function nextPart(text: string, end: number): number {
  const at = skipSpace(text, end);
  return text.charCodeAt(at) === COMMA ? skipSpace(text, at + 1) : at;
}
