/**
 * Payloads and results: bytes with a content type.
 */

import { type IntegerMode, JsonText, readJson, writeJson } from "./json/exact.js";
import { invalid } from "./errors.js";

export const JSON_TYPE = "application/json";
const BYTES_TYPE = "application/octet-stream";
const JSON_CONTENT = /^application\/(json|[^;]+\+json)\s*(;|$)/i;

/** Whether payloads of this content type are JSON. */
export function isJsonType(contentType: string): boolean {
  return JSON_CONTENT.test(contentType);
}

/** Bytes with a content type: the payload of a job, or its result. */
export class Content {
  readonly #integers: IntegerMode;

  /**
   * @param bytes the bytes
   * @param contentType such as `image/png`
   */
  constructor(
    readonly bytes: Uint8Array,
    readonly contentType: string,
    integers: IntegerMode = "number",
  ) {
    this.#integers = integers;
  }

  /** Whether the content type is JSON. */
  get isJson(): boolean {
    return isJsonType(this.contentType);
  }

  /** The bytes as a text of UTF-8. */
  text(): string {
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength).toString("utf8");
  }

  /**
   * Reads the bytes as JSON, with integers as the client reads them. The type is not checked.
   *
   * @throws SyntaxError if they are not JSON
   */
  json<T = unknown>(): T {
    return readJson(this.text(), this.#integers) as T;
  }
}

/** @internal A payload or result that is ready to be sent: JSON text, or bytes with their type. */
export type Encoded =
  | { readonly json: string; readonly contentType?: string | undefined }
  | { readonly bytes: Uint8Array; readonly contentType: string };

/** @internal Writes a payload or result. Bytes are sent as they are, all other values as JSON. */
export function encodeContent(field: string, value: unknown, contentType?: string): Encoded {
  if (value instanceof Content) {
    return { bytes: value.bytes, contentType: contentType ?? value.contentType };
  }
  if (value instanceof Uint8Array) {
    return { bytes: value, contentType: contentType ?? BYTES_TYPE };
  }
  const json = jsonOf(field, value);
  if (json === undefined) {
    throw invalid(field, "is a value that JSON does not have");
  }
  return contentType === undefined || contentType === JSON_TYPE ? { json } : { json, contentType };
}

function jsonOf(field: string, value: unknown): string | undefined {
  try {
    return value instanceof JsonText ? value.text : writeJson(value);
  } catch (cause) {
    throw invalid(field, `cannot be written as JSON: ${(cause as Error).message}`);
  }
}

/** @internal The bytes and the content type of a request whose body is this payload. */
export function bodyOf(content: Encoded): { body: string | Uint8Array; contentType: string } {
  return "json" in content
    ? { body: content.json, contentType: content.contentType ?? JSON_TYPE }
    : { body: content.bytes, contentType: content.contentType };
}

/** @internal The members of an object of JSON with this payload or result, without the braces. */
export function membersOf(name: "payload" | "result", content: Encoded): string {
  if ("json" in content) {
    // A text with its own content type is sent as bytes: the wire has no content type for embedded JSON.
    if (content.contentType === undefined) {
      return `"${name}":${content.json}`;
    }
    return bytesMembers(name, Buffer.from(content.json), content.contentType);
  }
  return bytesMembers(name, content.bytes, content.contentType);
}

function bytesMembers(name: string, bytes: Uint8Array, contentType: string): string {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  return `"${name}_base64":"${base64}","content_type":${JSON.stringify(contentType)}`;
}
