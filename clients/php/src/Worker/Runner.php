<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use Fiber;
use Throwable;
use Tidegate\Loop\Loop;
use Tidegate\Traces;

/**
 * Runs the handlers of jobs, each as a fiber. Only {@see Job::sleep()} suspends one, so a handler that does not use it
 * runs from its begin to its end while no other does.
 *
 * @internal
 */
final class Runner
{
    /** How long handlers run before requests have their turn, in seconds. */
    private const SLICE = 0.005;

    /** @var list<HeldJob> that wait for a slot */
    private array $waiting = [];
    /** @var array<int, HeldJob> whose handlers have begun, by their object ids */
    private array $running = [];
    private ?HeldJob $current = null;

    /**
     * @param array<string, Closure(Job): mixed> $handlers by queue, with their middleware
     * @param Closure(HeldJob): void $onStart is called before a handler begins
     * @param Closure(): void $onSwitch is called before a handler gets the thread
     * @param Closure(HeldJob, Closure(): mixed): void $onEnd takes the end of a handler: the function returns its
     *        value, or throws its error
     */
    public function __construct(
        private readonly Loop $loop,
        private readonly array $handlers,
        private readonly int $slots,
        private readonly Closure $onStart,
        private readonly Closure $onSwitch,
        private readonly Closure $onEnd,
    ) {
    }

    public function add(HeldJob $held): void
    {
        $this->waiting[] = $held;
    }

    /** How many jobs wait or run. */
    public function count(): int
    {
        return count($this->waiting) + count($this->running);
    }

    public function hasWaiting(): bool
    {
        return $this->waiting !== [];
    }

    /** @return list<HeldJob> the jobs that wait, which are removed */
    public function takeWaiting(): array
    {
        [$waiting, $this->waiting] = [$this->waiting, []];
        return $waiting;
    }

    /** @return array<int, HeldJob> the jobs whose handlers have begun */
    public function running(): array
    {
        return $this->running;
    }

    /** The job whose handler has the thread. */
    public function current(): ?HeldJob
    {
        return $this->current;
    }

    /** Forgets all jobs. Their handlers do not go on. */
    public function forgetAll(): void
    {
        $this->waiting = [];
        $this->running = [];
    }

    /** Lets handlers go on, and begins others. Returns when a handler wants to go on. */
    public function advance(): float
    {
        $this->resumeDue();
        $until = $this->loop->now() + self::SLICE;
        while ($this->canBegin() && $this->loop->now() < $until) {
            $this->begin(array_shift($this->waiting));
        }
        return $this->canBegin() ? 0.0 : $this->nextWake();
    }

    /** Suspends the handler of a job for so many seconds, or until it is aborted. */
    public function pause(Job $job, float $seconds): void
    {
        $held = $this->current;
        $until = $this->loop->now() + $seconds;
        if ($held?->job === $job && $held->fiber === Fiber::getCurrent()) {
            $held->wakeAt = $until;
            Fiber::suspend();
            return;
        }
        // A fiber of the handler itself, which nobody here may suspend.
        $this->loop->runUntil(fn (): bool => $job->isAborted() || $this->loop->now() >= $until);
    }

    /** Whether a job waits, and a slot is free. */
    public function canBegin(): bool
    {
        return $this->waiting !== [] && count($this->running) < $this->slots;
    }

    private function nextWake(): float
    {
        $next = INF;
        foreach ($this->running as $held) {
            $next = min($next, $held->wakeAt);
        }
        return $next;
    }

    private function resumeDue(): void
    {
        foreach ($this->running as $held) {
            if ($held->job->isAborted() || $held->wakeAt <= $this->loop->now()) {
                $this->switchTo($held, static fn () => $held->fiber->resume());
            }
        }
    }

    private function begin(HeldJob $held): void
    {
        $held->startedAt = $this->loop->now();
        if ($held->job->isAborted()) {
            // It is cancelled, or another worker has it.
            $reason = $held->job->abortReason();
            ($this->onEnd)($held, static fn (): mixed => throw new JobAborted($reason));
            return;
        }
        $this->running[spl_object_id($held)] = $held;
        ($this->onStart)($held);
        $held->fiber = new Fiber(function () use ($held): Closure {
            try {
                $value = Traces::run($held->job, $this->handlers[$held->job->queue]);
                return static fn (): mixed => $value;
            } catch (Throwable $error) {
                return static fn (): mixed => throw $error;
            }
        });
        $this->switchTo($held, static fn () => $held->fiber->start());
    }

    private function switchTo(HeldJob $held, Closure $switch): void
    {
        ($this->onSwitch)();
        $this->current = $held;
        try {
            $this->loop->runUserCode($switch);
        } finally {
            $this->current = null;
        }
        if ($held->fiber->isTerminated()) {
            unset($this->running[spl_object_id($held)]);
            ($this->onEnd)($held, $held->fiber->getReturn());
        }
    }
}
