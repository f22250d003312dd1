/**
 * The names of fields: `runAt` in this client is `run_at` on the wire. Instants of answers become `Date`.
 */

/** An object of JSON. */
export type JsonObject = Record<string, unknown>;

/** Fields whose content belongs to the user. Names in them are not changed. */
const OPAQUE = new Set(["payload", "result", "attributes"]);

/** Fields of answers that are instants, besides those that end in `_at` and `_until`. */
const INSTANTS = new Set(["at", "next_run", "now", "since"]);
const INSTANT_LISTS = new Set(["runs"]);

const toSnake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const toCamel = (name: string): string => name.replace(/_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());

function isPlain(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Writes fields with the names of the wire. Absent fields are left out; a `Date` becomes an integer of ms. */
export function toWire(value: unknown): unknown {
  if (value instanceof Date) {
    return value.getTime();
  }
  if (Array.isArray(value)) {
    return value.map(toWire);
  }
  if (!isPlain(value)) {
    return value;
  }
  const fields: JsonObject = {};
  for (const [name, part] of Object.entries(value)) {
    if (part !== undefined) {
      fields[toSnake(name)] = OPAQUE.has(name) ? part : toWire(part);
    }
  }
  return fields;
}

/** Reads the fields of an answer. */
export function fromWire<T>(value: unknown): T {
  return convert(value) as T;
}

function convert(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(convert);
  }
  if (!isPlain(value)) {
    return value;
  }
  const fields: JsonObject = {};
  for (const [name, part] of Object.entries(value)) {
    fields[toCamel(name)] = OPAQUE.has(name) ? part : convertField(name, part);
  }
  return fields;
}

function convertField(name: string, value: unknown): unknown {
  if (typeof value === "string" && isInstant(name)) {
    return new Date(value);
  }
  if (Array.isArray(value) && INSTANT_LISTS.has(name)) {
    return value.map((text: string) => new Date(text));
  }
  return convert(value);
}

function isInstant(name: string): boolean {
  return name.endsWith("_at") || name.endsWith("_until") || INSTANTS.has(name);
}
