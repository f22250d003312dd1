<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeImmutable;
use stdClass;

/** The job that a publish created or found. */
final class PublishedJob
{
    private function __construct(
        public readonly string $id,
        public readonly string $queue,
        public readonly ?string $key,
        /** `created`, `exists`, `replaced`, `rerun` or `revived`. */
        public readonly string $outcome,
        /** `delayed`, `ready`, `leased`, `dead` or `done`. */
        public readonly string $state,
        /** When the job is due next; `null` if it is done, or runs and will not run again. */
        public readonly ?DateTimeImmutable $runAt,
        /** The copies of the job, such as `memory` or `replica:1`. */
        public readonly string $durability,
        /** Whether an earlier publish with the same idempotency key has stored the job. */
        public readonly bool $replayed,
        /** The answer of the server. */
        public readonly stdClass $document,
    ) {
    }

    /** @internal */
    public static function of(stdClass $document): self
    {
        return new self(
            $document->id,
            $document->queue,
            $document->key ?? null,
            $document->outcome,
            $document->state,
            Instant::parse($document->run_at ?? null),
            $document->durability,
            $document->replayed ?? false,
            $document,
        );
    }
}
