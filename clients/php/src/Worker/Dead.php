<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use RuntimeException;
use Throwable;

/** The attempt has failed, and no other can succeed: the job goes to the dead letter. Return it, or throw it. */
final class Dead extends RuntimeException
{
    public function __construct(string|Throwable $error)
    {
        parent::__construct(...Failure::arguments($error));
    }
}
