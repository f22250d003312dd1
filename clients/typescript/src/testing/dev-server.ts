/**
 * Starts a real server for tests: `tidegate dev --json`.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { createInterface } from "node:readline";

import { Client } from "../client.js";
import { type ClientOptions } from "../config.js";
import { within } from "../worker/within.js";

export interface DevServerOptions {
  /** The program `tidegate`. Default: the variable `TIDEGATE_PROGRAM`, or `tidegate` of `PATH`. */
  readonly program?: string;
  /** The port of the API. Default: a free one. */
  readonly port?: number;
  /** The admin port. Default: a free one. */
  readonly adminPort?: number;
  /** How long the start may take. Default: 30,000. */
  readonly startLimitMs?: number;
}

interface Summary {
  readonly url: string;
  readonly admin_url: string;
  readonly namespace: string;
  readonly key: string;
}

const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 10_000;
const LOG_CHARACTERS_SHOWN = 2_000;
const SCOPES = ["publish", "consume", "read", "admin"];

/**
 * A server on this machine with a Redis of its own, which needs `redis-server` or `valkey-server` on `PATH`, or the
 * variable `TG_REDIS_SERVER`. Stop it at the end; with `await using` this is done by itself.
 */
export class DevServer {
  readonly #process: ChildProcess;
  readonly #summary: Summary;

  private constructor(process: ChildProcess, summary: Summary) {
    this.#process = process;
    this.#summary = summary;
  }

  /**
   * Starts a server, and waits until it serves.
   *
   * @throws Error with the end of its log, if it does not start
   */
  static async start(options: DevServerOptions = {}): Promise<DevServer> {
    const program = options.program ?? process.env["TIDEGATE_PROGRAM"] ?? "tidegate";
    const port = options.port ?? (await freePort());
    const adminPort = options.adminPort ?? (await freePort());
    const flags = ["dev", "--json", "--port", String(port), "--admin-port", String(adminPort)];
    const child = spawn(program, flags, { env: environment(), stdio: ["ignore", "pipe", "pipe"] });
    try {
      return new DevServer(child, await summaryOf(child, options.startLimitMs ?? START_LIMIT_MS));
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  /** The URL for clients. */
  get url(): string {
    return this.#summary.url;
  }

  /** The URL of the admin port. */
  get adminUrl(): string {
    return this.#summary.admin_url;
  }

  /** A client of a namespace with a new API key that has all scopes. Give each test its own namespace. */
  async client(namespace: string, options: ClientOptions = {}): Promise<Client> {
    const key = await this.createKey(namespace);
    return new Client({ url: this.url, key, namespace, ...options });
  }

  /** A new API key for a namespace, with all scopes. */
  async createKey(namespace: string): Promise<string> {
    const response = await fetch(`${this.adminUrl}/v1/${encodeURIComponent(namespace)}/keys`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ scopes: SCOPES, description: "tests" }),
    });
    if (!response.ok) {
      throw new Error(`failed to create an API key: ${await response.text()}`);
    }
    return ((await response.json()) as { secret: string }).secret;
  }

  /** Stops the server and its Redis. */
  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) {
      return;
    }
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGTERM");
    if (!(await within(STOP_LIMIT_MS, ended))) {
      this.#process.kill("SIGKILL");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** The variables of the daemons are settings; variables of the test are not meant for them. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TIDEGATE_")));
}

/** Waits for the line that the program prints once everything runs. */
async function summaryOf(child: ChildProcess, limitMs: number): Promise<Summary> {
  let log = "";
  child.stderr?.on("data", (text: Buffer) => (log = (log + text.toString()).slice(-LOG_CHARACTERS_SHOWN)));
  let line: string | undefined;
  const printed = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => resolve());
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).once("line", (text) => {
      line = text;
      resolve();
    });
  });
  const isInTime = await within(limitMs, printed);
  if (line === undefined) {
    throw new Error(`${isInTime ? "the server has ended" : `no server within ${limitMs} ms`}; the end of its log:\n${log}`);
  }
  return JSON.parse(line) as Summary;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
