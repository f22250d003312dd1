<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use DateTimeImmutable;
use DateTimeZone;
use Tidegate\Duration;
use Tidegate\Instant;

/**
 * Durations and instants of the wire.
 *
 * @internal
 */
final class FakeDuration
{
    private const UNITS = ['ms' => 1, 's' => 1000, 'm' => 60_000, 'h' => 3_600_000, 'd' => 86_400_000];
    private const PART = '(\d+(?:\.\d+)?)(ms|s|m|h|d)';

    public static function ms(string $text): int
    {
        if (str_starts_with($text, 'P')) {
            return Duration::from(new \DateInterval($text))->ms;
        }
        if (preg_match('/^(?:' . self::PART . ')+$/', $text) !== 1) {
            throw new FakeProblem(400, 'invalid_parameter', "\"$text\" is not a duration");
        }
        preg_match_all('/' . self::PART . '/', $text, $parts, PREG_SET_ORDER);
        $ms = 0.0;
        foreach ($parts as [, $number, $unit]) {
            $ms += (float) $number * self::UNITS[$unit];
        }
        return (int) ceil($ms);
    }

    public static function instantMs(int|string $value): int
    {
        $isNumber = is_int($value) || ctype_digit($value);
        return $isNumber ? (int) $value : Instant::toMs(new DateTimeImmutable($value));
    }

    public static function instantText(int $ms): string
    {
        return Instant::fromMs($ms)->setTimezone(new DateTimeZone('UTC'))->format('Y-m-d\TH:i:s.v\Z');
    }
}
