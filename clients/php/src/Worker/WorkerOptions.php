<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use DateInterval;
use Tidegate\Duration;
use Tidegate\Errors\InvalidRequestError;

/** How a worker runs. */
final class WorkerOptions
{
    public readonly ?float $maxRun;
    public readonly float $wait;
    public readonly float $grace;
    public readonly ?Duration $lease;
    public readonly string $name;

    /**
     * @param int $slots how many jobs the worker holds at most. Handlers run one after the other, and a handler that
     *        waits in {@see Job::sleep()} lets others run. With handlers that take long, set 1, so that no job waits
     *        here while another worker is free.
     * @param int $prefetch how many more jobs wait in this process for a slot. Their leases are extended; a stop gives
     *        them back at once.
     * @param string|null $name the name with which the worker is listed, 1 to 128 bytes; default: `HOST:PID`
     * @param Duration|DateInterval|null $lease after so long without a sign of this worker its jobs are delivered to
     *        another one, 100 ms to 24 h; default: as the job or the policy says
     * @param Duration|DateInterval|null $wait how long a request for jobs waits; default: 20 s
     * @param Duration|DateInterval|null $maxRun how long a handler may run: then it is aborted, its lease is not
     *        extended any more, and the attempt has failed; default: no limit
     * @param Duration|DateInterval|null $grace how long handlers may run after a stop; default: 25 s
     * @param bool $strict whether a queue is served only if all before it are empty; default: in random order
     * @param array<string, int> $weights how often a queue is looked into first, compared with others of weight 1
     * @param bool $handleSignals whether SIGTERM and SIGINT stop the worker; needs the extension pcntl
     * @param bool $extendByAlarm whether SIGALRM extends leases while a handler blocks; needs the extension pcntl. The
     *        signal cuts `sleep()` short. Handlers must not use `pcntl_alarm()` then.
     * @param bool $interruptBlocking whether SIGALRM throws {@see JobAborted} into a handler that blocks, at any place
     *        of its code
     * @throws InvalidRequestError
     */
    public function __construct(
        public readonly int $slots = 64,
        public readonly int $prefetch = 0,
        ?string $name = null,
        Duration|DateInterval|null $lease = null,
        Duration|DateInterval|null $wait = null,
        Duration|DateInterval|null $maxRun = null,
        Duration|DateInterval|null $grace = null,
        public readonly bool $strict = false,
        public readonly array $weights = [],
        public readonly bool $handleSignals = true,
        public readonly bool $extendByAlarm = true,
        public readonly bool $interruptBlocking = false,
    ) {
        if ($slots < 1 || $prefetch < 0) {
            throw InvalidRequestError::found('a worker has 1 or more slots, and a prefetch of 0 or more', 'slots');
        }
        $this->lease = $lease === null ? null : Duration::from($lease);
        $this->wait = $wait === null ? 20.0 : Duration::from($wait)->inSeconds();
        $this->maxRun = $maxRun === null ? null : Duration::from($maxRun)->inSeconds();
        $this->grace = $grace === null ? 25.0 : Duration::from($grace)->inSeconds();
        $this->name = $name ?? gethostname() . ':' . getmypid();
    }
}
