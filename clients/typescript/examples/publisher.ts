/** An order that is closed in 30 minutes unless it is paid. */

import { Client, NotFoundError } from "tidegate";

const queue = new Client().queue("close-unpaid");

/** An order is placed. A repetition finds the job of the first call by its key. */
async function placed(order: number): Promise<void> {
  const job = await queue.publish({ order }, { key: `order-${order}`, delayMs: 30 * 60_000 });
  console.log(`order ${order} is closed at ${job.runAt?.toISOString()}, unless it is paid`);
}

/** It is paid. If the job is not there any more, the order is closed already. */
async function paid(order: number): Promise<boolean> {
  const cancelling = queue.job({ key: `order-${order}` }).cancel();
  return cancelling.then(() => true, (error: unknown) => {
    if (error instanceof NotFoundError) return false;
    throw error;
  });
}

await placed(17);
console.log(`paid in time: ${await paid(17)}`);
