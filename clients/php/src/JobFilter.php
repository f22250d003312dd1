<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeInterface;

/** Selects the jobs of a queue that match all its fields. Without a field it selects all jobs. */
final class JobFilter
{
    /**
     * @param string|null $state `delayed`, `ready`, `leased`, `dead` or `done`
     * @param DateTimeInterface|null $dueFrom not before this instant a job is due, its lease ends, or it has died
     * @param DateTimeInterface|null $dueBefore the same before this instant
     * @param string|null $keyPrefix how the keys begin
     * @param string|null $group the group of the jobs
     * @param string|null $attribute an attribute as `NAME=VALUE`
     * @param string|null $errorContains a part of the last error
     */
    public function __construct(
        public readonly ?string $state = null,
        public readonly ?DateTimeInterface $dueFrom = null,
        public readonly ?DateTimeInterface $dueBefore = null,
        public readonly ?string $keyPrefix = null,
        public readonly ?string $group = null,
        public readonly ?string $attribute = null,
        public readonly ?string $errorContains = null,
    ) {
    }

    /**
     * The fields of the wire.
     *
     * @internal
     *
     * @return array<string, string|int>
     */
    public function fields(): array
    {
        return array_filter([
            'state' => $this->state,
            'due_from' => $this->dueFrom === null ? null : Instant::toMs($this->dueFrom),
            'due_before' => $this->dueBefore === null ? null : Instant::toMs($this->dueBefore),
            'key_prefix' => $this->keyPrefix,
            'group' => $this->group,
            'attribute' => $this->attribute,
            'error_contains' => $this->errorContains,
        ], static fn (mixed $value): bool => $value !== null);
    }
}
