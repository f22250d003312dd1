<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** The request is not valid (other 4xx). Without a status the client has found this, and has sent nothing. */
final class InvalidRequestError extends TidegateError
{
    /** A mistake that was found before anything was sent. */
    public static function found(string $detail, ?string $field = null): self
    {
        return new self($detail, field: $field);
    }
}
