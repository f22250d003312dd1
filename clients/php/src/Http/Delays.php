<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Closure;
use Tidegate\Errors\TidegateError;
use Tidegate\RepeatLimits;

/**
 * The delays before the repetitions of one request.
 *
 * @internal
 */
final class Delays
{
    private int $count = 0;

    /** @param Closure(): float|null $random returns 0 to 1 */
    public function __construct(
        private readonly RepeatLimits $limits,
        private readonly ?Closure $random = null,
    ) {
    }

    /** For a request that is repeated as long as something else allows it. */
    public static function endless(float $first, float $longest): self
    {
        return new self(new RepeatLimits(PHP_INT_MAX, $first, $longest));
    }

    /** The delay in seconds after this error; `null` if the request is not repeated any more. */
    public function nextAfter(TidegateError $error): ?float
    {
        if ($this->count >= $this->limits->repetitions) {
            return null;
        }
        $delay = min($this->limits->firstDelay * 2 ** min($this->count, 30), $this->limits->longestDelay);
        $this->count++;
        $delay *= 1 + ($this->random === null ? mt_rand() / mt_getrandmax() : ($this->random)());
        $after = $error->retryAfter?->inSeconds() ?? 0.0;
        return $after > RepeatLimits::RETRY_AFTER_MAX ? null : max($delay, $after);
    }
}
