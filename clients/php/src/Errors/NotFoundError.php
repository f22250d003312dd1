<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** There is no such job, schedule, key or route (404). */
final class NotFoundError extends TidegateError
{
}
