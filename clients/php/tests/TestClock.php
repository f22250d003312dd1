<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use Tidegate\Loop\Clock;

/** A clock that moves when a transport waits. */
final class TestClock extends Clock
{
    public float $now = 1000.0;

    public function now(): float
    {
        return $this->now;
    }
}
