<?php

declare(strict_types=1);

namespace Tidegate;

/**
 * How often a request that failed is repeated, and the delays between.
 *
 * The first delay is doubled up to the longest one. Each is made longer at random, up to twice.
 */
final class RepeatLimits
{
    /** The longest `Retry-After` that is waited for, in seconds. */
    public const RETRY_AFTER_MAX = 30.0;

    public function __construct(
        /** The most repetitions; 0 for none. */
        public readonly int $repetitions = 7,
        /** The first delay in seconds. */
        public readonly float $firstDelay = 0.1,
        /** The longest delay in seconds, before it is made longer at random. */
        public readonly float $longestDelay = 5.0,
    ) {
    }
}
