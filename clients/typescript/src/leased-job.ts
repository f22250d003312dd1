/**
 * A job that was reserved.
 */

import { type IntegerMode, readJson } from "./json/exact.js";
import { elementsOf, memberOf } from "./json/scan.js";

/** @internal A job as an answer to a reserve has it. */
export interface LeasedJobView {
  readonly id: string;
  readonly queue: string;
  readonly lease: string;
  readonly lease_until: string;
  readonly attempt: number;
  readonly failures: number;
  readonly losses: number;
  readonly run_at: string;
  readonly created_at: string;
  readonly content_type: string;
  readonly key?: string;
  readonly group?: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly traceparent?: string;
  readonly payload?: unknown;
  readonly payload_base64?: string;
}

/** @internal The answer to a reserve, whose jobs share it. The texts of the payloads are sought when one is needed. */
export class ReserveText {
  #payloads: (string | undefined)[] | undefined;

  constructor(
    private readonly text: string,
    private readonly integers: IntegerMode,
  ) {}

  read<T>(): T {
    return readJson(this.text, this.integers) as T;
  }

  /** The text of the payload of the job with this number. */
  payload(index: number): string | undefined {
    this.#payloads ??= this.#findPayloads();
    return this.#payloads[index];
  }

  #findPayloads(): (string | undefined)[] {
    const jobs = memberOf(this.text, 0, "jobs");
    const elements = jobs === undefined ? [] : elementsOf(this.text, jobs.start);
    return elements.map((job) => {
      const payload = memberOf(this.text, job.start, "payload");
      return payload && this.text.slice(payload.start, payload.end);
    });
  }
}

const NO_ATTRIBUTES: Readonly<Record<string, string>> = Object.freeze({});

/** A job that this process holds until its lease ends. */
export class LeasedJob<T = unknown> {
  readonly #view: LeasedJobView;
  readonly #text: ReserveText;
  readonly #index: number;

  /** @internal */
  constructor(view: LeasedJobView, text: ReserveText, index: number) {
    this.#view = view;
    this.#text = text;
    this.#index = index;
  }

  /** The id of the job. */
  get id(): string {
    return this.#view.id;
  }

  /** Its queue. */
  get queue(): string {
    return this.#view.queue;
  }

  /** The lease, by which its end is reported. */
  get lease(): string {
    return this.#view.lease;
  }

  /** When the lease ends, if it is not extended, by the clock of the server. */
  get leaseUntil(): Date {
    return new Date(this.#view.lease_until);
  }

  /** The number of this attempt, from 1. It only grows: together with the id it is a fencing token. */
  get attempt(): number {
    return this.#view.attempt;
  }

  /** How many attempts have failed. */
  get failures(): number {
    return this.#view.failures;
  }

  /** How often a worker was lost while it held the job. */
  get losses(): number {
    return this.#view.losses;
  }

  /** When it was due. */
  get runAt(): Date {
    return new Date(this.#view.run_at);
  }

  /** When it was published. */
  get createdAt(): Date {
    return new Date(this.#view.created_at);
  }

  /** Its key, if it has one. */
  get key(): string | undefined {
    return this.#view.key;
  }

  /** Its group, if it has one. */
  get group(): string | undefined {
    return this.#view.group;
  }

  /** The texts that travel with the job. */
  get attributes(): Readonly<Record<string, string>> {
    return this.#view.attributes ?? NO_ATTRIBUTES;
  }

  /** The span of this delivery, if the server traces it. */
  get traceParent(): string | undefined {
    return this.#view.traceparent;
  }

  /** The content type of the payload. */
  get contentType(): string {
    return this.#view.content_type;
  }

  /**
   * The payload: the value of its JSON, or its bytes if it is not JSON.
   *
   * Integers beyond 2^53 are rounded, unless the client was made with `integers: "bigint"`; {@link payloadText} has all
   * digits.
   */
  get payload(): T {
    const view = this.#view;
    return (view.payload === undefined ? this.payloadBytes : view.payload) as T;
  }

  /** The payload as a text: its JSON as it was published, or its bytes as UTF-8. */
  get payloadText(): string {
    const isJson = this.#view.payload !== undefined;
    const text = isJson ? this.#text.payload(this.#index) : undefined;
    return text ?? Buffer.from(this.#view.payload_base64 ?? "", "base64").toString("utf8");
  }

  /** The payload as bytes. */
  get payloadBytes(): Uint8Array {
    return this.#view.payload === undefined
      ? new Uint8Array(Buffer.from(this.#view.payload_base64 ?? "", "base64"))
      : new Uint8Array(Buffer.from(this.payloadText, "utf8"));
  }

  /** Whether the payload is JSON. */
  get isJson(): boolean {
    return this.#view.payload !== undefined;
  }
}
