/**
 * The commands that are single calls of the client.
 */

import type {
  BatchJob, Client, FailedLease, JobFilter, JobResult, NewKey, PolicyChange, QueueChoice, Schedule,
} from "../dist/index.js";
import { TidegateError } from "../dist/index.js";
import { asServer, contentFields, jobRef, leasedFields, optionsOf, publishOf } from "./fields.js";

export type Fields = Record<string, unknown>;
export type Command = (fields: Fields) => Promise<unknown>;

type ErrorFields = (error: unknown) => Fields;

export function commands(client: Client, errorFields: ErrorFields): Record<string, Command> {
  return {
    ...publishing(client, errorFields),
    ...consuming(client),
    ...jobs(client),
    ...queues(client),
    ...settings(client),
  };
}

function publishing(client: Client, errorFields: ErrorFields): Record<string, Command> {
  return {
    async publish(fields) {
      const { payload, ...options } = publishOf(fields);
      return asServer(await client.publish(text(fields, "queue"), payload, options));
    },
    async publish_batch(fields) {
      const jobs = (fields["jobs"] as Fields[]).map(publishOf) as BatchJob[];
      const atomic = fields["atomic"] as boolean | undefined;
      const results = await client.publishBatch(text(fields, "queue"), jobs, { atomic });
      return results.map((it) => (it instanceof TidegateError ? { error: errorFields(it) } : asServer(it)));
    },
    publish_many: (fields) => publishMany(client, fields),
    async call(fields) {
      const { payload, ...options } = publishOf(fields);
      const waitMs = number(fields, "wait_ms") ?? 0;
      return resultFields(await client.call(text(fields, "queue"), payload, { ...options, waitMs }));
    },
  };
}

async function publishMany(client: Client, fields: Fields): Promise<Fields> {
  const count = number(fields, "count") ?? 0;
  const bytes = number(fields, "payload_bytes") ?? 0;
  const queue = text(fields, "queue");
  let next = 0;
  const publishSome = async (): Promise<void> => {
    while (next < count) {
      const n = next++;
      const padding = "x".repeat(Math.max(0, bytes - `{"n":${n},"padding":""}`.length));
      await client.publish(queue, padding === "" ? { n } : { n, padding });
    }
  };
  await Promise.all(Array.from({ length: number(fields, "concurrency") ?? 1 }, publishSome));
  return { published: count };
}

function consuming(client: Client): Record<string, Command> {
  const leases = (fields: Fields): string[] => fields["leases"] as string[];
  return {
    async reserve(fields) {
      const options = { maxJobs: number(fields, "max_jobs"), waitMs: number(fields, "wait_ms"), leaseMs: number(fields, "lease_ms") };
      return (await client.reserve(fields["queues"] as QueueChoice[], options)).map(leasedFields);
    },
    ack: async (fields) => asServer(await client.ack(leases(fields))),
    touch: async (fields) => asServer(await client.touch(leases(fields), { leaseMs: number(fields, "lease_ms") })),
    release: async (fields) => asServer(await client.release(leases(fields), { delayMs: number(fields, "delay_ms") })),
    async fail(fields) {
      const failure = { error: text(fields, "error"), retryInMs: number(fields, "retry_in_ms"), dead: fields["dead"] as boolean | undefined };
      const failed: FailedLease[] = leases(fields).map((lease) => ({ lease, ...failure }));
      return asServer(await client.fail(failed));
    },
  };
}

function jobs(client: Client): Record<string, Command> {
  const job = (fields: Fields): ReturnType<ReturnType<Client["queue"]>["job"]> =>
    client.queue(text(fields, "queue")).job(jobRef(fields));
  return {
    show: async (fields) => asServer(await job(fields).show()),
    explain: async (fields) => asServer(await job(fields).explain()),
    payload: async (fields) => contentFields("payload", await job(fields).payload()),
    result: async (fields) => resultFields(await job(fields).result({ waitMs: number(fields, "wait_ms") ?? 0 }), "payload"),
    promote: async (fields) => asServer(await job(fields).promote()),
    change: async (fields) => asServer(await job(fields).change(optionsOf(fields["options"] as Fields))),
    cancel: async (fields) => asServer(await job(fields).cancel({ running: fields["running"] as "ask" | undefined })),
  };
}

/** The result of a call is in `result`, the answer to `result` in `payload`. */
function resultFields(end: JobResult, name: "payload" | "result" = "result"): Fields {
  if (end.status === "pending") {
    return { pending: end.id };
  }
  return end.result === undefined ? { [name]: null } : contentFields(name, end.result);
}

function queues(client: Client): Record<string, Command> {
  const queue = (fields: Fields): ReturnType<Client["queue"]> => client.queue(text(fields, "queue"));
  return {
    async list_jobs(fields) {
      const filter = (fields["filter"] ?? {}) as JobFilter;
      return collect(queue(fields).jobs(filter, { pageSize: number(fields, "page_size") }));
    },
    async act(fields) {
      const { running, rate_per_second: ratePerSecond, change, ...rest } = (fields["options"] ?? {}) as Fields;
      const action = fields["action"] as "cancel";
      const changed = action === ("change" as string) ? optionsOf((change ?? rest) as Fields) : undefined;
      const filter = (fields["filter"] ?? {}) as JobFilter;
      const options = { action, filter, change: changed, running: running as "ask", ratePerSecond: ratePerSecond as number };
      return asServer(await queue(fields).act({ ...options, dryRun: fields["dry_run"] as boolean | undefined }));
    },
    queue: async (fields) => asServer(await queue(fields).counts()),
    queues: async (fields) => collect(client.queues({ pageSize: number(fields, "page_size") })),
    policy: async (fields) => policyFields(await queue(fields).policy()),
    set_policy: async (fields) => policyFields(await queue(fields).setPolicy(fields["policy"] as PolicyChange)),
    purge: async (fields) => ({ deleted: await queue(fields).purge(fields["state"] as "ready") }),
    respawn: async (fields) => ({ respawned: await queue(fields).respawn({ limit: number(fields, "limit") }) }),
    async delete_queue(fields) {
      await queue(fields).delete();
      return { outcome: "deleted" };
    },
  };
}

/** The `ETag` is no part of the answer of the server. */
function policyFields(policy: { etag: string | undefined }): unknown {
  const { etag: _etag, ...fields } = policy;
  return asServer(fields);
}

function settings(client: Client): Record<string, Command> {
  const schedule = (fields: Fields): ReturnType<Client["schedule"]> => client.schedule(text(fields, "name"));
  return {
    set_schedule: async (fields) => asServer(await schedule(fields).set(fields["schedule"] as Schedule)),
    schedule: async (fields) => asServer(await schedule(fields).show()),
    schedules: async () => collect(client.schedules()),
    next_runs: async (fields) => ({ runs: asServer(await schedule(fields).nextRuns({ count: number(fields, "count") })) }),
    async delete_schedule(fields) {
      await schedule(fields).delete();
      return { outcome: "deleted" };
    },
    create_key: async (fields) => asServer(await client.keys.create(fields["key"] as NewKey)),
    keys: async () => collect(client.keys.list()),
    revoke_key: async (fields) => asServer(await client.keys.revoke(text(fields, "key_id"))),
  };
}

async function collect(list: AsyncIterable<unknown>): Promise<unknown[]> {
  const items: unknown[] = [];
  for await (const item of list) {
    items.push(asServer(item));
  }
  return items;
}

function text(fields: Fields, name: string): string {
  return fields[name] as string;
}

function number(fields: Fields, name: string): number | undefined {
  return fields[name] as number | undefined;
}

