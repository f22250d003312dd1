<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** The server failed, or its answer was not understood (5xx). */
final class ServerError extends TidegateError
{
}
