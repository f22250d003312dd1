<?php

declare(strict_types=1);

namespace Tidegate\Http;

use JsonException;
use stdClass;
use Tidegate\BigInteger;
use Tidegate\Errors\InvalidRequestError;

/**
 * JSON as the server reads and writes it.
 *
 * @internal
 */
final class Json
{
    private const ENCODING = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES
        | JSON_PRESERVE_ZERO_FRACTION;
    private const DECODING = JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING;
    /** Integers of 19 digits or more, besides texts and parts of other numbers. */
    private const BIG_INTEGERS = '/"(?:[^"\\\\]++|\\\\.)*+"(*SKIP)(*FAIL)|(?<![\d.eE+])-?[1-9]\d{18,}+(?![.eE])/s';

    /** Begins the texts that stand for big integers. It is random, so that no text of a user begins with it. */
    private static ?string $mark = null;
    private static bool $isEncoding = false;

    /** @throws JsonException */
    public static function encode(mixed $value): string
    {
        $wasEncoding = self::$isEncoding;
        self::$isEncoding = true;
        try {
            $text = json_encode($value, self::ENCODING);
        } finally {
            self::$isEncoding = $wasEncoding;
        }
        $mark = self::$mark;
        return $mark === null || !str_contains($text, $mark)
            ? $text
            : preg_replace("/\"$mark(-?\\d+)\"/", '$1', $text);
    }

    /** Of a big integer: the text that {@see Json::encode()} makes a number of, or the digits in other JSON. */
    public static function markIfEncoding(string $digits): string
    {
        return self::$isEncoding ? self::mark() . $digits : $digits;
    }

    /** @throws InvalidRequestError if the value cannot be written as JSON */
    public static function encodePayload(mixed $value): string
    {
        try {
            return self::encode($value);
        } catch (JsonException $error) {
            $detail = 'the payload cannot be written as JSON: ' . $error->getMessage();
            throw InvalidRequestError::found($detail, 'payload');
        }
    }

    /**
     * An integer that PHP cannot hold becomes a {@see BigInteger}: a float would lose digits.
     *
     * @throws JsonException
     */
    public static function decode(string $text, bool $associative): mixed
    {
        if (preg_match('/\d{19}/', $text) !== 1) {
            return json_decode($text, $associative, 512, self::DECODING);
        }
        $count = 0;
        $marked = preg_replace_callback(self::BIG_INTEGERS, static function (array $match) use (&$count): string {
            $isInt = (string) (int) $match[0] === $match[0];
            $count += $isInt ? 0 : 1;
            return $isInt ? $match[0] : '"' . self::mark() . $match[0] . '"';
        }, $text);
        $value = json_decode($marked ?? $text, $associative, 512, self::DECODING);
        return $count === 0 ? $value : self::withBigIntegers($value);
    }

    /** Makes big integers of the texts that stand for them. */
    private static function withBigIntegers(mixed $value): mixed
    {
        if (is_string($value)) {
            $isMarked = str_starts_with($value, self::mark());
            return $isMarked ? new BigInteger(substr($value, strlen(self::mark()))) : $value;
        }
        if ($value instanceof stdClass) {
            foreach (get_object_vars($value) as $name => $item) {
                $value->{$name} = self::withBigIntegers($item);
            }
            return $value;
        }
        return is_array($value) ? array_map(self::withBigIntegers(...), $value) : $value;
    }

    private static function mark(): string
    {
        return self::$mark ??= bin2hex(random_bytes(16)) . ':';
    }

    /**
     * Reads an answer. Objects become `stdClass`, so that `{}` and `[]` stay apart.
     *
     * @throws JsonException
     */
    public static function decodeAnswer(string $text): mixed
    {
        try {
            return self::decode($text, false);
        } catch (JsonException $error) {
            if ($error->getCode() !== JSON_ERROR_INVALID_PROPERTY_NAME) {
                throw $error;
            }
            // A name in a payload begins with NUL, which no property may. Other jobs of the answer must not suffer.
            return self::toDocument(self::decode($text, true), 0);
        }
    }

    public static function isContentType(string $contentType): bool
    {
        $type = strtolower(trim(explode(';', $contentType, 2)[0]));
        return $type === 'application/json' || str_ends_with($type, '+json');
    }

    /** Makes arrays of objects. */
    public static function toArrays(mixed $value): mixed
    {
        if ($value instanceof stdClass) {
            $value = (array) $value;
        }
        return is_array($value) ? array_map(self::toArrays(...), $value) : $value;
    }

    /** Makes objects of the arrays with names in the upper levels, which are the answer itself. */
    private static function toDocument(mixed $value, int $level): mixed
    {
        if (!is_array($value) || $level > 2) {
            return $value;
        }
        $converted = array_map(static fn (mixed $item): mixed => self::toDocument($item, $level + 1), $value);
        return array_is_list($value) ? $converted : (object) $converted;
    }
}
