<?php

declare(strict_types=1);

namespace Tidegate;

/** The rule for a publish whose key a job has. */
enum IfExists: string
{
    /** The job stays as it is. The default. */
    case Keep = 'keep';

    /** A job that waits gets the new content, options and time. A job that runs will run again. */
    case Replace = 'replace';

    /** The publish fails with the code key_taken. */
    case Reject = 'reject';
}
