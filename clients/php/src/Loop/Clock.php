<?php

declare(strict_types=1);

namespace Tidegate\Loop;

/**
 * A clock that is never set back.
 *
 * @internal
 */
class Clock
{
    /** Seconds since some time. */
    public function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
