<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeImmutable;
use DateTimeInterface;
use DateTimeZone;

/**
 * Converts instants to the form of the wire and back.
 *
 * @internal
 */
final class Instant
{
    /** Milliseconds since 1970, rounded up. */
    public static function toMs(DateTimeInterface $instant): int
    {
        $microseconds = (int) $instant->format('u');
        return $instant->getTimestamp() * 1000 + intdiv($microseconds + 999, 1000);
    }

    public static function fromMs(int $ms): DateTimeImmutable
    {
        $seconds = intdiv($ms, 1000);
        $rest = $ms % 1000;
        if ($rest < 0) {
            $seconds--;
            $rest += 1000;
        }
        return (new DateTimeImmutable('@' . $seconds))->modify("+$rest milliseconds");
    }

    /** Reads an instant of an answer, which is RFC 3339 in UTC. */
    public static function parse(?string $text): ?DateTimeImmutable
    {
        return $text === null ? null : new DateTimeImmutable($text, new DateTimeZone('UTC'));
    }
}
