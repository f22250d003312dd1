<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** The state of the job, queue or key does not allow the request (409, 412, 422 `idempotency_key_reused`). */
final class ConflictError extends TidegateError
{
}
