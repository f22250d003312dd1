<?php

declare(strict_types=1);

namespace Tidegate\Http;

use JsonException;
use stdClass;
use Tidegate\Applied;
use Tidegate\Duration;
use Tidegate\Errors\AuthError;
use Tidegate\Errors\ConflictError;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Errors\NotFoundError;
use Tidegate\Errors\RateLimitedError;
use Tidegate\Errors\ServerError;
use Tidegate\Errors\TidegateError;

/**
 * Makes errors from problem documents.
 *
 * @internal
 */
final class Problem
{
    /** How much of an unexpected answer an error shows. */
    private const SHOWN_BYTES = 200;

    /** The error of an answer that is no success. */
    public static function ofAnswer(Answer $answer): TidegateError
    {
        $retryAfter = RetryAfter::of($answer);
        try {
            $document = Json::decode($answer->body, false);
        } catch (JsonException) {
            $document = null;
        }
        if ($document instanceof stdClass && is_string($document->detail ?? null)) {
            return self::ofDocument($document, $answer->status, $retryAfter);
        }
        $class = self::classOf($answer->status, null);
        $shown = mb_scrub(substr($answer->body, 0, self::SHOWN_BYTES), 'UTF-8');
        // Probably of a proxy, which may have passed the request on.
        return new $class("unexpected answer: $shown", Applied::Unknown, $answer->status, retryAfter: $retryAfter);
    }

    /** The error of a problem document, such as of one job of a batch. */
    public static function ofDocument(
        stdClass $document,
        ?int $status = null,
        ?Duration $retryAfter = null,
    ): TidegateError {
        $status ??= $document->status ?? 500;
        $code = $document->code ?? null;
        $class = self::classOf($status, $code);
        return new $class(
            $document->detail,
            // Requests that change nothing have no `applied`; nor have documents of proxies, which may have passed the
            // request on.
            Applied::tryFrom($document->applied ?? ($status < 500 ? 'no' : 'unknown')) ?? Applied::Unknown,
            $status,
            $code,
            $document->field ?? null,
            $retryAfter,
            $document,
        );
    }

    /** An answer with the status of a success that cannot be read. */
    public static function unreadable(Answer $answer, string $reason): TidegateError
    {
        return new ServerError("the answer cannot be read: $reason", Applied::Unknown, $answer->status);
    }

    /** @return class-string<TidegateError> */
    private static function classOf(int $status, ?string $code): string
    {
        return match (true) {
            $status === 401, $status === 403 => AuthError::class,
            $status === 404 => NotFoundError::class,
            $status === 409, $status === 412, $code === 'idempotency_key_reused' => ConflictError::class,
            $status === 429 => RateLimitedError::class,
            $status >= 400 && $status < 500 => InvalidRequestError::class,
            default => ServerError::class,
        };
    }
}
