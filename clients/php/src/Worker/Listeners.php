<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use Throwable;

/**
 * The listeners of a worker.
 *
 * @internal
 */
final class Listeners
{
    /** @param list<Closure(WorkerEvent): void> $listeners */
    public function __construct(private readonly array $listeners)
    {
    }

    public function tell(string $name, ?Job $job = null, ?Throwable $error = null, ?float $seconds = null): void
    {
        if ($this->listeners === []) {
            return;
        }
        $event = new WorkerEvent($name, $job, $error, $seconds);
        foreach ($this->listeners as $listener) {
            try {
                $listener($event);
            } catch (Throwable $error) {
                // The end of a job must be reported all the same.
                error_log("a listener of a worker failed at the event $name: $error");
            }
        }
    }
}
