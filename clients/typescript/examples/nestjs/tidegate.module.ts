/**
 * Tidegate in NestJS: `TidegateModule.forRoot()` provides a `Client`, and runs a worker with the methods that are
 * decorated with `@OnJob(queue)`. Nest stops the worker in `app.close()`; with `app.enableShutdownHooks()` a signal
 * does that too.
 */

import {
  type DynamicModule, Inject, Injectable, Module, type OnApplicationBootstrap, type OnApplicationShutdown, SetMetadata,
} from "@nestjs/common";
import { DiscoveryModule, DiscoveryService, MetadataScanner, Reflector } from "@nestjs/core";
import { Client, type ClientOptions, type Handler, Worker, type WorkerOptions } from "tidegate";

const ON_JOB = "tidegate:on-job";
const OPTIONS = Symbol("tidegate:options");

/** The method handles the jobs of a queue: it gets the `Job`, and its return value is the result. */
export const OnJob = (queue: string): MethodDecorator => SetMetadata(ON_JOB, queue);

export interface TidegateModuleOptions {
  /** A client, or the options of one. By default the variables `TIDEGATE_URL`, `TIDEGATE_KEY` and `TIDEGATE_NAMESPACE`. */
  readonly client?: Client | ClientOptions;
  readonly worker?: Omit<WorkerOptions, "signals">;
}

/** Runs one worker with all handlers of the application; none if there are no handlers. */
@Injectable()
export class TidegateWorker implements OnApplicationBootstrap, OnApplicationShutdown {
  #worker: Worker | undefined;
  #running: Promise<void> | undefined;

  constructor(
    @Inject(Client) private readonly client: Client,
    @Inject(OPTIONS) private readonly options: TidegateModuleOptions,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
    @Inject(Reflector) private readonly reflector: Reflector,
  ) {}

  /** The worker, for tests with a fake. */
  get worker(): Worker | undefined {
    return this.#worker;
  }

  onApplicationBootstrap(): void {
    const handlers = [...this.#handlers()];
    if (handlers.length === 0) {
      return;
    }
    // Nest handles the signals.
    const worker = new Worker(this.client, { ...this.options.worker, signals: false });
    handlers.forEach(([queue, handler]) => worker.handle(queue, handler));
    this.#worker = worker;
    this.#running = worker.run();
    // The server refuses the key: an application that runs no jobs should not look healthy.
    this.#running.catch((error: unknown) => {
      console.error(error);
      process.exitCode = 1;
      process.kill(process.pid, "SIGTERM");
    });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#worker?.stop();
    await this.#running?.catch(() => undefined);
  }

  *#handlers(): Generator<[string, Handler]> {
    for (const { instance } of this.discovery.getProviders()) {
      if (typeof instance !== "object" || instance === null) {
        continue;
      }
      for (const name of this.scanner.getAllMethodNames(Object.getPrototypeOf(instance) as object)) {
        const method = (instance as Record<string, unknown>)[name] as Handler;
        const queue = this.reflector.get<string | undefined>(ON_JOB, method);
        if (queue !== undefined) {
          yield [queue, (job) => method.call(instance, job)];
        }
      }
    }
  }
}

@Module({})
export class TidegateModule {
  /** The module for the root of the application. `Client` can be injected everywhere. */
  static forRoot(options: TidegateModuleOptions = {}): DynamicModule {
    const client = options.client instanceof Client ? options.client : new Client(options.client);
    return {
      module: TidegateModule,
      global: true,
      imports: [DiscoveryModule],
      providers: [{ provide: Client, useValue: client }, { provide: OPTIONS, useValue: options }, TidegateWorker],
      exports: [Client, TidegateWorker],
    };
  }
}
