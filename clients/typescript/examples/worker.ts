/** A worker for two queues. It stops on SIGTERM: handlers that run have 25 s to end. */

import { setTimeout as delay } from "node:timers/promises";

import { Client, Dead, type Job, RetryIn, Worker } from "tidegate";

class MailboxFull extends Error {}
class NoSuchMailbox extends Error {}

/** A long job. The signal of the job ends it when the producer has cancelled it. */
async function sendMail(job: Job<{ to: string; pages: number }>): Promise<{ pages: number }> {
  const { to, pages } = job.payload;
  try {
    for (let page = 1; page <= pages; page += 1) {
      await sendPage(to, page, job.signal);
    }
    return { pages };
  } catch (error) {
    if (error instanceof MailboxFull) throw new RetryIn(error, { delayMs: 30_000 });
    if (error instanceof NoSuchMailbox) throw new Dead(error);
    throw error;
  }
}

async function sendPage(to: string, page: number, signal: AbortSignal): Promise<void> {
  if (!to.includes("@")) throw new NoSuchMailbox(`${to} is no address`);
  if (to.startsWith("full@")) throw new MailboxFull(`${to} is full`);
  await delay(1_000, undefined, { signal });
  console.log(`page ${page} to ${to}`);
}

await new Worker(new Client(), { slots: 64, graceMs: 25_000 })
  .handle<{ order: number }>("close-unpaid", (job) => console.log(`close order ${job.payload.order}`))
  .handle("mails", sendMail)
  .run();
