<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Throwable;

/** Something that a worker tells its listeners, for logs and metrics. */
final class WorkerEvent
{
    /** A handler begins. */
    public const STARTED = 'started';
    /** A handler has succeeded. */
    public const DONE = 'done';
    /** A handler has failed with `error`. */
    public const FAILED = 'failed';
    /** A handler was aborted. */
    public const ABORTED = 'aborted';
    /** A job is given back. */
    public const RELEASED = 'released';
    /** A report came too late: another worker has the job, or will get it. */
    public const LEASE_LOST = 'lease_lost';
    /** A request for jobs has failed with `error`, and is repeated. */
    public const RESERVE_FAILED = 'reserve_failed';
    /** Leases could not be extended because of `error`; this is repeated. */
    public const EXTEND_FAILED = 'extend_failed';
    /** The ends of jobs could not be reported because of `error`. */
    public const REPORT_FAILED = 'report_failed';
    /** The worker stops. */
    public const STOPPING = 'stopping';
    /** The worker has ended. */
    public const STOPPED = 'stopped';

    /** @internal */
    public function __construct(
        /** One of the constants of this class. */
        public readonly string $name,
        public readonly ?Job $job = null,
        public readonly ?Throwable $error = null,
        /** How long the handler has run, in seconds. */
        public readonly ?float $seconds = null,
    ) {
    }
}
