<?php

declare(strict_types=1);

namespace Tidegate\Errors;

/** The API key is missing, not valid, or does not allow the request (401, 403). */
final class AuthError extends TidegateError
{
}
