<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** The queue is full, or a rate limit is reached (429). See `retryAfter`. */
final class RateLimitedError extends TidegateError
{
}
