/**
 * A server that answers as a test says, and records the requests.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";

import { Client, type ClientOptions } from "../dist/index.js";

export interface Recorded {
  readonly method: string;
  /** The path and query as they were sent. */
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Responder = (request: Recorded, response: ServerResponse, index: number) => void;

export interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: Recorded[];
  client(options?: ClientOptions): Client;
}

/** Starts a server on a free port. */
export async function serve(respond: Responder): Promise<TestServer> {
  const requests: Recorded[] = [];
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) {
      chunks.push(chunk as Buffer);
    }
    const body = Buffer.concat(chunks).toString();
    const request = { method: incoming.method ?? "", url: incoming.url ?? "", headers: incoming.headers, body };
    requests.push(request);
    respond(request, response, requests.length - 1);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    client: (options = {}) => new Client({ url, key: "tg_A_B", namespace: "shop", ...options }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** The answer to a publish. */
export function published(id: string): object {
  return { id, queue: "q", outcome: "created", state: "ready", run_at: "2030-01-01T00:00:00.000Z", durability: "memory" };
}

export function problem(status: number, code: string, applied?: "no" | "yes" | "unknown"): object {
  return { type: `urn:tidegate:problem:${code}`, title: code, status, code, detail: `detail of ${code}`, instance: "01X", applied };
}

/** Repetitions without long waits. */
export const FAST = { repeat: { firstDelayMs: 1, longestDelayMs: 1 } };
