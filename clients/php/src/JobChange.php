<?php

declare(strict_types=1);

namespace Tidegate;

use DateInterval;
use DateTimeInterface;

/** The fields to change in a job that waits. Fields that are `null` stay as they are. */
final class JobChange
{
    /**
     * @param Duration|DateInterval|null $delay when the job is due, from now on; excludes `runAt`
     * @param DateTimeInterface|null $runAt when the job is due; excludes `delay`
     * @param Duration|DateInterval|null $startWithin drops the job if no worker has started it so long after it was due
     * @param int|null $priority 0 to 4
     * @param bool $noStartWithin removes `startWithin` from the job
     */
    public function __construct(
        public readonly Duration|DateInterval|null $delay = null,
        public readonly ?DateTimeInterface $runAt = null,
        public readonly Duration|DateInterval|null $startWithin = null,
        public readonly ?int $priority = null,
        public readonly bool $noStartWithin = false,
    ) {
    }

    /**
     * The object of the wire.
     *
     * @internal
     */
    public function toWire(): object
    {
        $fields = array_filter([
            'delay' => $this->delay === null ? null : (string) Duration::from($this->delay),
            'run_at' => $this->runAt === null ? null : Instant::toMs($this->runAt),
            'start_within' => $this->startWithin === null ? null : (string) Duration::from($this->startWithin),
            'priority' => $this->priority,
        ], static fn (mixed $value): bool => $value !== null);
        if ($this->noStartWithin) {
            $fields['start_within'] = null;
        }
        return (object) $fields;
    }
}
