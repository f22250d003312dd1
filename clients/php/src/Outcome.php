<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeImmutable;
use stdClass;

/** What became of a lease that was acknowledged, failed, extended or released. */
final class Outcome
{
    private function __construct(
        /** `done`, `retry`, `dead`, `extended`, `released`, `cancelled`, `rerun`, `lost` or `gone`. */
        public readonly string $outcome,
        /** Of `retry`: when the job is due again. */
        public readonly ?DateTimeImmutable $runAt,
        /** Of `extended`: until when the job is held. */
        public readonly ?DateTimeImmutable $leaseUntil,
        /** Of `extended`: whether the producer asks the worker to stop. */
        public readonly bool $cancelRequested,
        /** Of `done`: whether there was no memory for the result. */
        public readonly bool $resultDropped,
        /** The answer of the server. */
        public readonly stdClass $document,
    ) {
    }

    /** @internal */
    public static function of(stdClass $document): self
    {
        return new self(
            $document->outcome,
            Instant::parse($document->run_at ?? null),
            Instant::parse($document->lease_until ?? null),
            $document->cancel_requested ?? false,
            $document->result_dropped ?? false,
            $document,
        );
    }
}
