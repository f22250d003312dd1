<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Throwable;

/**
 * The texts of errors.
 *
 * @internal
 */
final class Failure
{
    /** The server stores 1,024 bytes. */
    private const TEXT_BYTES = 2048;

    /** The text that is reported for an error. */
    public static function text(Throwable $error): string
    {
        $text = $error->getMessage() === '' ? $error::class : $error->getMessage();
        return mb_strcut(mb_scrub($text, 'UTF-8'), 0, self::TEXT_BYTES, 'UTF-8');
    }

    /** @return array{message: string, previous: ?Throwable} */
    public static function arguments(string|Throwable $error): array
    {
        return $error instanceof Throwable
            ? ['message' => self::text($error), 'previous' => $error]
            : ['message' => $error, 'previous' => null];
    }
}
