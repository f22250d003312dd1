<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Tidegate\Duration;

/**
 * Reads the header `Retry-After`.
 *
 * @internal
 */
final class RetryAfter
{
    /** Longer times are so long, in seconds: no client waits for them. */
    private const MAX = 365 * 86_400;

    public static function of(Answer $answer): ?Duration
    {
        $text = trim($answer->header('retry-after') ?? '');
        if ($text === '') {
            return null;
        }
        if (ctype_digit($text)) {
            return Duration::seconds(min((float) $text, self::MAX));
        }
        $date = strtotime($text);
        return $date === false ? null : Duration::seconds(max(0, min($date - time(), self::MAX)));
    }
}
