<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Fiber;

/**
 * A job that the worker holds: it waits for a slot, or its handler runs.
 *
 * @internal
 */
final class HeldJob
{
    public ?Fiber $fiber = null;
    /** When the handler wants to go on. */
    public float $wakeAt = 0.0;
    public float $startedAt = 0.0;
    /** When the lease was granted or last extended. */
    public float $extendedAt;
    public float $expiresAt;
    /** After that the lease is not extended any more. */
    public float $extendUntil = INF;
    /** Whether a request that extends the lease is in flight. */
    public bool $isExtending = false;

    public function __construct(
        public readonly Job $job,
        /** The length of the lease in seconds. */
        public readonly float $length,
        float $now,
    ) {
        $this->extended($now);
    }

    /**
     * A job whose lease was granted between two times: the answer with it may have waited while a handler blocked the
     * loop.
     */
    public static function arrived(Job $job, float $length, float $earliest, float $now): self
    {
        // If the lease may have ended already it is extended at once, which shows whether it has.
        return new self($job, $length, max($earliest, $now - $length * 2 / 3));
    }

    /** The lease was granted or extended by a request that was sent then. */
    public function extended(float $sent): void
    {
        $this->extendedAt = $sent;
        $this->expiresAt = $sent + $this->length;
    }

    /** When the lease should be extended. */
    public function dueAt(): float
    {
        $due = $this->extendedAt + $this->length / 3;
        return $due < $this->extendUntil ? $due : INF;
    }
}
