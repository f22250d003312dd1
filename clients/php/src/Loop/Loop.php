<?php

declare(strict_types=1);

namespace Tidegate\Loop;

use Closure;
use Fiber;
use SplObjectStorage;
use Tidegate\Http\Transport;

/**
 * Carries on the requests of a client, its tasks and its workers, in one thread.
 *
 * A task is a fiber that is suspended while it waits. Code outside of tasks blocks when it waits, and carries the loop
 * on meanwhile.
 *
 * @internal
 */
final class Loop
{
    /** The longest wait of a step, in seconds. */
    private const STEP_MAX = 1.0;

    /** @var SplObjectStorage<Fiber, null> */
    private SplObjectStorage $tasks;
    /** @var list<Fiber> tasks that wait for nothing any more */
    private array $ready = [];
    /** @var array<int, array{float, Closure(): void}> */
    private array $timers = [];
    private int $nextNumber = 0;
    /** @var array<int, Closure(float): ?float> */
    private array $background = [];
    private bool $isPumping = false;

    public function __construct(
        public readonly Transport $transport,
        private readonly Clock $clock = new Clock(),
    ) {
        $this->tasks = new SplObjectStorage();
    }

    /** The time in seconds. */
    public function now(): float
    {
        return $this->clock->now();
    }

    /** Runs a function as a task. Returns its future value. */
    public function spawn(Closure $body): Future
    {
        $future = new Future();
        $fiber = new Fiber(function () use ($body, $future): void {
            try {
                $value = $body();
            } catch (\Throwable $error) {
                $future->fail($error);
                return;
            }
            $future->complete($value);
        });
        $this->tasks->attach($fiber);
        $fiber->start();
        $this->forgetIfEnded($fiber);
        return $future;
    }

    /**
     * Runs functions as tasks, up to so many at a time, and waits for all.
     *
     * @param iterable<array-key, Closure> $functions
     * @return array<array-key, mixed> their values, with their keys
     */
    public function concurrently(iterable $functions, int $limit): array
    {
        $futures = [];
        $running = 0;
        $next = null;
        foreach ($functions as $key => $function) {
            if ($running >= max(1, $limit)) {
                $next = new Future();
                $this->await($next);
            }
            $running++;
            $futures[$key] = $this->spawn($function);
            $futures[$key]->whenDone(static function () use (&$running, &$next): void {
                $running--;
                $next?->complete(null);
            });
        }
        foreach ($futures as $future) {
            $this->awaitEnd($future);
        }
        return array_map(static fn (Future $future): mixed => $future->get(), $futures);
    }

    private function awaitEnd(Future $future): void
    {
        try {
            $this->await($future);
        } catch (\Throwable) {
            // The future keeps the error.
        }
    }

    /** Waits for a future value. */
    public function await(Future $future): mixed
    {
        $task = $this->currentTask();
        if ($task === null) {
            $this->runUntil($future->isDone(...));
        } elseif (!$future->isDone()) {
            $future->whenDone(function () use ($task): void {
                $this->ready[] = $task;
            });
            Fiber::suspend();
        }
        return $future->get();
    }

    /** Waits so many seconds. */
    public function sleep(float $seconds): void
    {
        $future = new Future();
        $this->at($this->now() + $seconds, static fn () => $future->complete(null));
        $this->await($future);
    }

    /**
     * Calls a function at a time.
     *
     * @return int a number for {@see Loop::forget()}
     */
    public function at(float $time, Closure $callback): int
    {
        $this->timers[++$this->nextNumber] = [$time, $callback];
        return $this->nextNumber;
    }

    /**
     * Calls a function in each step with the time. It returns how many seconds later it wants to be called at the
     * latest; `null` if it does not matter.
     *
     * @return int a number for {@see Loop::forget()}
     */
    public function addBackground(Closure $callback): int
    {
        $this->background[++$this->nextNumber] = $callback;
        return $this->nextNumber;
    }

    /** Removes a timer or a background function. */
    public function forget(int $number): void
    {
        unset($this->timers[$number], $this->background[$number]);
    }

    /** Carries everything on until the condition is true. */
    public function runUntil(Closure $isDone): void
    {
        while (!$isDone()) {
            $this->step(self::STEP_MAX);
        }
    }

    /** Carries everything on once. Waits up to so many seconds if there is nothing to do. */
    public function step(float $wait): void
    {
        $before = $this->isPumping;
        $this->isPumping = true;
        try {
            // What was carried on may have ended what the caller waits for.
            $wait = $this->resumeReady() || $this->fireTimers() ? 0.0 : $wait;
            foreach ($this->background as $callback) {
                $wait = min($wait, $callback($this->now()) ?? $wait);
            }
            foreach ($this->timers as [$time]) {
                $wait = min($wait, $time - $this->now());
            }
            $this->transport->tick($this->ready === [] ? max(0.0, $wait) : 0.0);
            $this->resumeReady();
        } finally {
            $this->isPumping = $before;
        }
    }

    /** Whether the code of the loop runs, and not code of the user. */
    public function isPumping(): bool
    {
        return $this->isPumping;
    }

    /** Runs code of the user from within the loop. */
    public function runUserCode(Closure $code): void
    {
        $before = $this->isPumping;
        $this->isPumping = false;
        try {
            $code();
        } finally {
            $this->isPumping = $before;
        }
    }

    private function currentTask(): ?Fiber
    {
        $fiber = Fiber::getCurrent();
        return $fiber !== null && $this->tasks->contains($fiber) ? $fiber : null;
    }

    /** Returns whether there were any. */
    private function resumeReady(): bool
    {
        $wereReady = $this->ready !== [];
        while ($this->ready !== []) {
            $ready = $this->ready;
            $this->ready = [];
            foreach ($ready as $fiber) {
                $fiber->resume();
                $this->forgetIfEnded($fiber);
            }
        }
        return $wereReady;
    }

    /** Returns whether any was due. */
    private function fireTimers(): bool
    {
        $now = $this->now();
        $isAny = false;
        foreach ($this->timers as $number => [$time, $callback]) {
            if ($time <= $now) {
                unset($this->timers[$number]);
                $callback();
                $isAny = true;
            }
        }
        $this->resumeReady();
        return $isAny;
    }

    private function forgetIfEnded(Fiber $fiber): void
    {
        if ($fiber->isTerminated()) {
            $this->tasks->detach($fiber);
        }
    }
}
