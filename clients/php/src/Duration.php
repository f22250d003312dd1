<?php

declare(strict_types=1);

namespace Tidegate;

use DateInterval;
use Tidegate\Errors\InvalidRequestError;

/**
 * A length of time in whole milliseconds. Fractions are rounded up.
 *
 * All methods that take a `Duration` also take a `DateInterval` without years and months.
 */
final class Duration
{
    private const MS_OF_DAY = 86_400_000;

    private function __construct(
        /** The length in milliseconds, 0 or more. */
        public readonly int $ms,
    ) {
    }

    /** @throws InvalidRequestError if it is negative */
    public static function milliseconds(int|float $ms): self
    {
        if ($ms < 0 || !is_finite($ms) || $ms >= PHP_INT_MAX) {
            throw InvalidRequestError::found("a duration is 0 ms to 557 years, not $ms ms");
        }
        return new self((int) ceil($ms));
    }

    /** @throws InvalidRequestError if it is negative */
    public static function seconds(int|float $seconds): self
    {
        return self::milliseconds($seconds * 1000);
    }

    /** @throws InvalidRequestError if it is negative */
    public static function minutes(int|float $minutes): self
    {
        return self::milliseconds($minutes * 60_000);
    }

    /** @throws InvalidRequestError if it is negative */
    public static function hours(int|float $hours): self
    {
        return self::milliseconds($hours * 3_600_000);
    }

    /**
     * Days of 24 hours.
     *
     * @throws InvalidRequestError if it is negative
     */
    public static function days(int|float $days): self
    {
        return self::milliseconds($days * self::MS_OF_DAY);
    }

    /**
     * Converts an interval.
     *
     * @throws InvalidRequestError if it is negative, or has years or months, which have no fixed length
     */
    public static function from(self|DateInterval $value): self
    {
        if ($value instanceof self) {
            return $value;
        }
        // `days` is known if the interval is the difference of two instants.
        $days = $value->days;
        if ($days === false) {
            if ($value->y !== 0 || $value->m !== 0) {
                throw InvalidRequestError::found('a duration has no years and months: they have no fixed length');
            }
            $days = $value->d;
        }
        $seconds = ($value->h * 60 + $value->i) * 60 + $value->s;
        $ms = $days * self::MS_OF_DAY + $seconds * 1000 + $value->f * 1000;
        return self::milliseconds($value->invert === 1 ? -$ms : $ms);
    }

    /** The length in seconds. */
    public function inSeconds(): float
    {
        return $this->ms / 1000;
    }

    /** The form of the wire, such as `1500ms`. */
    public function __toString(): string
    {
        return $this->ms . 'ms';
    }
}
