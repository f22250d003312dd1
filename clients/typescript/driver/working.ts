/**
 * The commands of the worker.
 */

import { setTimeout as delay } from "node:timers/promises";

import { type Client, Dead, type Job, RetryIn, Snooze, Worker, type WorkerOptions } from "../dist/index.js";
import type { Command, Fields } from "./commands.js";

/** What a handler does. */
interface Instructions {
  readonly then?: "ok" | "result" | "fail" | "retry_in" | "dead" | "snooze";
  readonly result?: unknown;
  readonly error?: string;
  readonly ms?: number;
  readonly sleep_ms?: number;
  readonly block_ms?: number;
}

type Write = (line: unknown) => void;

const STATUS_OF_END = 9;

export function workerCommands(
  client: Client,
  write: Write,
  errorFields: (error: unknown) => Fields,
): Record<string, Command> {
  let worker: Worker | undefined;
  return {
    async work(fields) {
      let isStoppedBySignal = false;
      const stopping = ({ signal }: { signal?: NodeJS.Signals }): void => {
        isStoppedBySignal = signal !== undefined;
      };
      worker = new Worker(client, { ...workerOptions(fields), hooks: { stopping } });
      for (const queue of fields["queues"] as string[]) {
        worker.handle(queue, (job) => run(job, write));
      }
      void worker.run().then(
        () => {
          write({ event: "worker_ended" });
          if (isStoppedBySignal) {
            process.exit(0);
          }
        },
        (error: unknown) => write({ event: "worker_ended", error: errorFields(error) }),
      );
      return {};
    },
    async stop(fields) {
      await worker?.stop({ graceMs: fields["grace_ms"] as number | undefined });
      return {};
    },
    async end() {
      process.exit(STATUS_OF_END);
    },
  };
}

function workerOptions(fields: Fields): WorkerOptions {
  const { slots, prefetch, name, strict, weights } = fields as WorkerOptions;
  const [leaseMs, waitMs, maxRunMs] = ["lease_ms", "wait_ms", "max_run_ms"].map((it) => fields[it] as number | undefined);
  return { slots, prefetch, name, strict, weights, leaseMs, waitMs, maxRunMs };
}

async function run(job: Job, write: Write): Promise<unknown> {
  const { id, attempt, queue } = job;
  write({ event: "started", job: id, attempt, queue });
  const instructions = instructionsOf(job.payload);
  try {
    await pause(job, instructions);
  } catch (error) {
    write({ event: "aborted", job: id, attempt, reason: job.abortReason });
    throw error;
  }
  write({ event: "ended", job: id, attempt });
  return end(instructions);
}

function instructionsOf(payload: unknown): Instructions {
  return typeof payload === "object" && payload !== null ? payload : {};
}

async function pause(job: Job, { block_ms: blockMs, sleep_ms: sleepMs }: Instructions): Promise<void> {
  if (blockMs !== undefined) {
    await delay(blockMs);
  }
  if (sleepMs !== undefined) {
    await delay(sleepMs, undefined, { signal: job.signal });
  }
}

function end({ then, result, error, ms = 0 }: Instructions): unknown {
  switch (then) {
    case "result":
      return result;
    case "fail":
      throw new Error(error);
    case "retry_in":
      throw new RetryIn("asked", { delayMs: ms });
    case "dead":
      throw new Dead("asked");
    case "snooze":
      throw new Snooze({ delayMs: ms });
    default:
      return undefined;
  }
}
