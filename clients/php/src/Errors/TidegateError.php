<?php

declare(strict_types=1);

namespace Tidegate\Errors;

use RuntimeException;
use stdClass;
use Tidegate\Applied;
use Tidegate\Duration;
use Throwable;

/** Why a request failed. The subclass follows the code of the server. `getCode()` is the HTTP status, or 0. */
abstract class TidegateError extends RuntimeException
{
    /** @internal */
    final public function __construct(
        /** The cause in this request, and the remedy. */
        public readonly string $detail,
        /** Whether the change was made all the same. */
        public readonly Applied $applied = Applied::No,
        /** The HTTP status; `null` without an answer of the server. */
        public readonly ?int $status = null,
        /** The machine-readable reason of the server, such as `key_taken`. */
        public readonly ?string $problemCode = null,
        /** The parameter, header or field that is invalid, such as `jobs[3].delay`. */
        public readonly ?string $field = null,
        /** When the same request may succeed, from now on, if the server said so. */
        public readonly ?Duration $retryAfter = null,
        /** The problem document of the server, with all its fields, such as `job`. */
        public readonly ?stdClass $document = null,
        ?Throwable $previous = null,
    ) {
        $code = $problemCode ?? ($status === null ? null : "status $status");
        parent::__construct($code === null ? $detail : "$code: $detail", $status ?? 0, $previous);
    }

    /** Whether the same request may succeed later: the server or the connection failed, not the request. */
    public function isTemporary(): bool
    {
        return in_array($this->status, [408, 429, 500, 502, 503, 504], true);
    }
}
