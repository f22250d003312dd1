<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use DateInterval;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Errors\TidegateError;

/**
 * Runs handlers for the jobs of up to 16 queues, in one process.
 *
 * | the handler | the job |
 * |---|---|
 * | returns a value | is done; the value is its result, unless it is `null` |
 * | throws | is retried by the policy of its queue, and dead after the last attempt |
 * | returns or throws {@see RetryIn} | is retried after that time |
 * | returns or throws {@see Dead} | is dead |
 * | returns or throws {@see Snooze} | is due again after that time, which is no failure |
 *
 * A job runs again if its worker dies, or if its report does not reach the server before the lease ends.
 */
final class Worker
{
    private readonly WorkerOptions $options;
    /** @var array<string, Closure(Job): mixed> */
    private array $handlers = [];
    /** @var list<Closure(Job, Closure(Job): mixed): mixed> */
    private array $middleware = [];
    /** @var list<Closure(WorkerEvent): void> */
    private array $listeners = [];
    private ?WorkerRun $run = null;

    public function __construct(
        private readonly Client $client,
        ?WorkerOptions $options = null,
    ) {
        $this->options = $options ?? new WorkerOptions();
    }

    /**
     * Sets the handler of a queue.
     *
     * @param callable(Job): mixed $handler
     * @throws InvalidRequestError if the queue has one
     */
    public function handle(string $queue, callable $handler): self
    {
        if (isset($this->handlers[$queue])) {
            throw InvalidRequestError::found("the queue $queue has a handler already", 'queues');
        }
        $this->handlers[$queue] = $handler(...);
        return $this;
    }

    /**
     * Wraps all handlers. Middleware that is added first is outside.
     *
     * @param callable(Job, Closure(Job): mixed): mixed $middleware calls the function with the job, and returns its
     *        value
     */
    public function wrap(callable $middleware): self
    {
        $this->middleware[] = $middleware(...);
        return $this;
    }

    /** @param callable(WorkerEvent): void $listener is told what happens. It must not throw. */
    public function listen(callable $listener): self
    {
        $this->listeners[] = $listener(...);
        return $this;
    }

    /**
     * Runs the worker until it is stopped by SIGTERM, SIGINT or {@see Worker::stop()}.
     *
     * The stop: no more jobs are requested; handlers have the grace period to finish; the others are aborted and their
     * jobs are given back; reports are sent for up to 10 s. A second signal ends the process at once.
     *
     * @throws TidegateError if the server refuses the worker (401, 403), or the worker is not valid
     */
    public function run(): void
    {
        $this->start();
        $this->join();
    }

    /**
     * Starts the worker. It is carried on while the client waits for something.
     *
     * @throws TidegateError if the worker is not valid
     */
    public function start(): void
    {
        if ($this->isRunning()) {
            throw InvalidRequestError::found('the worker runs already');
        }
        $handlers = array_map($this->wrapped(...), $this->handlers);
        $this->run = new WorkerRun($this->client->sender(), $this->options, $handlers, new Listeners($this->listeners));
        $this->run->start();
    }

    /**
     * Waits for the end of the worker.
     *
     * @throws TidegateError if the server refuses the worker (401, 403)
     */
    public function join(): void
    {
        if ($this->run !== null) {
            $this->client->sender()->loop->await($this->run->ended);
        }
    }

    public function isRunning(): bool
    {
        return $this->run !== null && !$this->run->ended->isDone();
    }

    /**
     * Requests the stop, and returns at once.
     *
     * @param Duration|DateInterval|null $grace another grace period than that of the options
     */
    public function stop(Duration|DateInterval|null $grace = null): void
    {
        $this->run?->stop($grace === null ? null : Duration::from($grace)->inSeconds());
    }

    private function wrapped(Closure $handler): Closure
    {
        foreach (array_reverse($this->middleware) as $middleware) {
            $inner = $handler;
            $handler = static fn (Job $job): mixed => $middleware($job, $inner);
        }
        return $handler;
    }
}
