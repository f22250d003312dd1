<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use DateInterval;
use stdClass;
use Tidegate\Duration;
use Tidegate\ReservedJob;

/** A job that a worker runs. */
final class Job extends ReservedJob
{
    private ?AbortReason $abortReason = null;

    /**
     * @internal
     *
     * @param Closure(self, float): void $pause waits so many seconds, or until the job is aborted
     * @param Closure(): void $checkpoint extends leases that are due
     */
    public function __construct(
        stdClass $document,
        private readonly Closure $pause,
        private readonly Closure $checkpoint,
    ) {
        parent::__construct($document);
    }

    /** Whether the handler should stop. */
    public function isAborted(): bool
    {
        return $this->abortReason !== null;
    }

    /** Why the handler should stop; `null` if it should not. */
    public function abortReason(): ?AbortReason
    {
        return $this->abortReason;
    }

    /**
     * Ends the handler if it should stop. Also extends leases that are due. Call it often in a handler that runs long.
     *
     * @throws JobAborted
     */
    public function throwIfAborted(): void
    {
        ($this->checkpoint)();
        if ($this->abortReason !== null) {
            throw new JobAborted($this->abortReason);
        }
    }

    /**
     * Waits, while leases are extended and the handlers of other jobs run. Unlike `sleep()` no signal cuts it short.
     *
     * @throws JobAborted if the handler should stop
     */
    public function sleep(Duration|DateInterval $time): void
    {
        ($this->pause)($this, Duration::from($time)->inSeconds());
        $this->throwIfAborted();
    }

    /**
     * Tells the handler to stop. The first reason counts, but a lost lease is worse than any other.
     *
     * @internal
     */
    public function abort(AbortReason $reason): void
    {
        if ($this->abortReason === null || $reason === AbortReason::LeaseLost) {
            $this->abortReason = $reason;
        }
    }
}
