<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use DateInterval;
use RuntimeException;
use Throwable;
use Tidegate\Duration;

/** The attempt has failed, and the next one is after a delay, unless this was the last one. Return it, or throw it. */
final class RetryIn extends RuntimeException
{
    public readonly Duration $delay;

    public function __construct(string|Throwable $error, Duration|DateInterval $delay)
    {
        $this->delay = Duration::from($delay);
        parent::__construct(...Failure::arguments($error));
    }
}
