<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Tidegate\Errors\InvalidRequestError;

/**
 * Paths of the wire, with names and keys percent-encoded.
 *
 * @internal
 */
final class Path
{
    /** @param string $rest begins with `/` or is empty */
    public static function queue(string $queue, string $rest = ''): string
    {
        return '/queues/' . self::name($queue, 'queue') . $rest;
    }

    /** A job by its id. */
    public static function job(string $queue, string $id, string $rest = ''): string
    {
        return self::queue($queue, '/jobs/' . self::name($id, 'id') . $rest);
    }

    /** A job by its key. A path cannot have a slash in a part, so such a key is a parameter. */
    public static function jobWithKey(string $queue, string $key, string $rest = ''): string
    {
        if ($key === '') {
            throw InvalidRequestError::found('"" is no key', 'key');
        }
        $encoded = rawurlencode($key);
        return str_contains($key, '/')
            ? self::queue($queue, "/jobs/-$rest?key=$encoded")
            : self::queue($queue, "/jobs/key:$encoded$rest");
    }

    public static function schedule(string $name, string $rest = ''): string
    {
        return '/schedules/' . self::name($name, 'schedule') . $rest;
    }

    /**
     * Adds parameters.
     *
     * @param array<string, mixed> $parameters objects are written as JSON
     */
    public static function with(string $path, array $parameters): string
    {
        foreach ($parameters as $name => $value) {
            $text = is_scalar($value) ? (string) $value : Json::encodePayload($value);
            $path .= (str_contains($path, '?') ? '&' : '?') . $name . '=' . rawurlencode($text);
        }
        return $path;
    }

    /** A part of a path: `.` and `..` would be other paths. */
    private static function name(string $name, string $field): string
    {
        if ($name === '' || $name === '.' || $name === '..') {
            throw InvalidRequestError::found("\"$name\" is no name", $field);
        }
        return rawurlencode($name);
    }
}
