<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** There was no answer. `applied` is `No` if nothing was sent, else `Unknown`. */
final class ConnectionError extends TidegateError
{
    public function isTemporary(): bool
    {
        return true;
    }
}
