/**
 * The driver of the conformance suite: commands are lines of JSON on the standard input, answers and events are lines
 * on the standard output.
 */

import { createInterface } from "node:readline";

import { Client, TidegateError } from "../dist/index.js";
import { readJson, writeJson } from "../dist/json/exact.js";
import { commands, type Fields } from "./commands.js";
import { workerCommands } from "./working.js";

/** Writes a line at once: the process may end at any time. */
function write(line: unknown): void {
  process.stdout.write(`${writeJson(line)}\n`);
}

function errorFields(error: unknown): Fields {
  if (!(error instanceof TidegateError)) {
    return { class: "Unexpected", detail: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  const { name, status, code, detail, applied, field, retryAfterMs } = error;
  return { class: name, status, code, detail, applied, field, retry_after_ms: retryAfterMs };
}

// Integers of 64 bits must pass as they are.
const client = new Client({ integers: "bigint" });
const table = { ...commands(client, errorFields), ...workerCommands(client, write, errorFields) };

async function run(command: Fields): Promise<void> {
  const { id, do: name, ...fields } = command;
  try {
    const perform = table[name as string];
    if (perform === undefined) {
      throw new Error(`there is no command ${String(name)}`);
    }
    write({ id, ok: await perform(fields) });
  } catch (error) {
    write({ id, error: errorFields(error) });
  }
}

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", (line) => void run(readJson(line, "bigint") as Fields));
lines.on("close", () => process.exit(0));
