<?php

declare(strict_types=1);

namespace Tidegate;

/** The rule for the cancel of a job that a worker holds. */
enum IfRunning: string
{
    /** The cancel fails with the code job_running. The default. */
    case Refuse = 'refuse';

    /** The worker is asked to stop. */
    case Ask = 'ask';

    /** The job is deleted now. The report of the worker will have no effect. */
    case Revoke = 'revoke';
}
