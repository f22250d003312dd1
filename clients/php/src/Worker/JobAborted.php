<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use RuntimeException;

/** Ends a handler that should stop. Let it pass. */
final class JobAborted extends RuntimeException
{
    /** @internal */
    public function __construct(public readonly AbortReason $reason)
    {
        parent::__construct('the job was aborted: ' . $reason->value);
    }
}
