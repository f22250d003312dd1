<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use DateInterval;
use RuntimeException;
use Tidegate\Duration;

/** Not now: the job is due again after a delay. This is no failure. Return it, or throw it. */
final class Snooze extends RuntimeException
{
    public readonly Duration $delay;

    public function __construct(Duration|DateInterval $delay)
    {
        $this->delay = Duration::from($delay);
        parent::__construct("snoozed for $this->delay");
    }
}
