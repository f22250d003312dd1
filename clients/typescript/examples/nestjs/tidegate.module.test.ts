import "reflect-metadata";

import assert from "node:assert/strict";
import { test } from "node:test";

import { Inject, Injectable } from "@nestjs/common";
import { Test } from "@nestjs/testing";
import { Client, type Job } from "tidegate";
import { FakeTidegate } from "tidegate/testing";

import { OnJob, TidegateModule } from "./tidegate.module.js";

@Injectable()
class Orders {
  readonly closed: number[] = [];

  constructor(@Inject(Client) private readonly client: Client) {}

  async place(order: number): Promise<void> {
    await this.client.publish("close-unpaid", { order }, { key: `order-${order}`, delayMs: 30 * 60_000 });
  }

  @OnJob("close-unpaid")
  close(job: Job<{ order: number }>): { closed: number } {
    this.closed.push(job.payload.order);
    return { closed: job.payload.order };
  }
}

test("a decorated method handles the jobs of its queue, and closing the application stops the worker", async () => {
  const fake = new FakeTidegate();
  const testing = await Test.createTestingModule({
    imports: [TidegateModule.forRoot({ client: fake.client() })],
    providers: [Orders],
  }).compile();
  await testing.init();
  const orders = testing.get(Orders);
  await orders.place(17);
  assert.deepEqual(orders.closed, []);

  const closing = testing.get(Client).queue("close-unpaid").job({ key: "order-17" }).result({ waitMs: 5_000 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  fake.advance(30 * 60_000);
  const end = await closing;
  assert.deepEqual(orders.closed, [17]);
  assert.ok(end.status === "done");
  assert.deepEqual(end.result?.json(), { closed: 17 });
  await testing.close();
});
