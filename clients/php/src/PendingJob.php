<?php

declare(strict_types=1);

namespace Tidegate;

/** A job that has not ended in the time of a call. It stays in its queue. Ask for its result later, or cancel it. */
final class PendingJob
{
    /** @internal */
    public function __construct(
        public readonly string $queue,
        public readonly string $id,
    ) {
    }
}
