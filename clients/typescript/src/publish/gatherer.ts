/**
 * Sends publishes that meet together.
 *
 * While a publish to a queue is in flight, further ones to the queue gather, and are sent as one batch when it is
 * answered. There is no timer: a publish that meets no other is sent at once.
 */

import { ConnectionError, TidegateError } from "../errors.js";
import { type Transport } from "../http/transport.js";
import { type PublishedJob } from "../wire/answers.js";
import { type JobToSend } from "./options.js";
import { batchCall, batchItem, batchResults, publishedJob, singleCall } from "./requests.js";

/** The most jobs of a batch. */
const BATCH_JOBS_MAX = 100;
/** The most bytes of the jobs of a batch; a job that has more is sent alone. */
const BATCH_SIZE_MAX = 1 << 20;
/** Answers that refuse a batch since one of its jobs is not valid. */
const REFUSED = new Set([400, 413, 415, 422]);

interface Waiting {
  readonly job: JobToSend;
  readonly resolve: (published: PublishedJob) => void;
  readonly reject: (error: unknown) => void;
  readonly since: number;
  /** The job as an element of a batch, written when it is first needed. */
  item?: string;
}

/** Publishes single jobs. Each caller gets its own result or error. Nothing is repeated here. */
export class PublishGatherer {
  readonly #transport: Transport;
  /** The jobs that wait for a request in flight, by queue. A queue without one has no entry. */
  readonly #gathered = new Map<string, Waiting[]>();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Publishes a job: now, or with others when the request in flight is answered. */
  publish(job: JobToSend): Promise<PublishedJob> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { job, resolve, reject, since: performance.now() };
      const gathered = this.#gathered.get(job.queue);
      if (gathered !== undefined) {
        gathered.push(waiting);
        return;
      }
      const queue: Waiting[] = [];
      this.#gathered.set(job.queue, queue);
      void this.#send(job.queue, waiting, queue);
    });
  }

  async #send(name: string, first: Waiting, gathered: Waiting[]): Promise<void> {
    await this.#sendOne(first);
    while (gathered.length > 0) {
      rejectLate(gathered, this.#transport.timeLimitMs);
      await this.#sendAll(name, gathered.splice(0, batchLength(gathered)));
    }
    this.#gathered.delete(name);
  }

  async #sendOne(waiting: Waiting): Promise<void> {
    try {
      waiting.resolve(publishedJob(await this.#transport.send(singleCall(waiting.job))));
    } catch (error) {
      waiting.reject(error);
    }
  }

  /** If the server refuses a batch, its halves are sent, so that each job that is not valid gets its own error. */
  async #sendAll(name: string, batch: readonly Waiting[]): Promise<void> {
    const [first] = batch;
    if (first === undefined) {
      return;
    }
    if (batch.length === 1) {
      return this.#sendOne(first);
    }
    try {
      const reply = await this.#transport.send(batchCall(name, batch.map(itemOf)));
      settle(batch, batchResults(reply));
    } catch (error) {
      if (!(error instanceof TidegateError) || !REFUSED.has(error.status ?? 0)) {
        batch.forEach((waiting) => waiting.reject(error));
        return;
      }
      const half = Math.ceil(batch.length / 2);
      await this.#sendAll(name, batch.slice(0, half));
      await this.#sendAll(name, batch.slice(half));
    }
  }
}

function itemOf(waiting: Waiting): string {
  return (waiting.item ??= batchItem(waiting.job));
}

/**
 * While the server answers slowly or not at all, publishes gather faster than they are sent. They do not wait for longer
 * than a request may take; their callers decide whether they are repeated.
 */
function rejectLate(gathered: Waiting[], limitMs: number): void {
  const now = performance.now();
  const onTime = gathered.findIndex((waiting) => now - waiting.since <= limitMs);
  const late = gathered.splice(0, onTime < 0 ? gathered.length : onTime);
  const detail = `not sent within ${limitMs} ms: requests with earlier publishes to the queue are not answered`;
  late.forEach((waiting) => waiting.reject(new ConnectionError({ detail, applied: "no" })));
}

/** How many of the jobs fit into one batch: at least one. */
function batchLength(gathered: readonly Waiting[]): number {
  let size = 0;
  let count = 0;
  for (const waiting of gathered.slice(0, BATCH_JOBS_MAX)) {
    size += Buffer.byteLength(itemOf(waiting));
    if (count > 0 && size > BATCH_SIZE_MAX) {
      break;
    }
    count += 1;
  }
  return count;
}

function settle(batch: readonly Waiting[], results: readonly (PublishedJob | TidegateError)[]): void {
  batch.forEach((waiting, index) => {
    const result = results[index];
    if (result === undefined || result instanceof TidegateError) {
      waiting.reject(result ?? missingResult());
    } else {
      waiting.resolve(result);
    }
  });
}

function missingResult(): TidegateError {
  return new TidegateError({ detail: "the answer has too few results", applied: "unknown" });
}
