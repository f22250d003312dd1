<?php

declare(strict_types=1);

namespace Tidegate\Worker;

/** Why a handler should stop. */
enum AbortReason: string
{
    /** The worker does not hold the job any more. The result of the handler has no effect. */
    case LeaseLost = 'lease_lost';

    /** The producer wants the job to be cancelled. If the handler fails now, the job is deleted. */
    case CancelRequested = 'cancel_requested';

    /** The handler has run for longer than `maxRun`. */
    case MaxRun = 'max_run';

    /** The worker stops, and its grace period is over. The job is given back. */
    case Stopping = 'stopping';
}
