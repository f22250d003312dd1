<?php

declare(strict_types=1);

namespace Tidegate\Driver;

use RuntimeException;
use stdClass;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\TidegateError;
use Tidegate\Worker\Dead;
use Tidegate\Worker\Job;
use Tidegate\Worker\JobAborted;
use Tidegate\Worker\RetryIn;
use Tidegate\Worker\Snooze;
use Tidegate\Worker\Worker;
use Tidegate\Worker\WorkerOptions;

/** The worker of the driver. */
final class Work
{
    private ?Worker $worker = null;
    private bool $isStopCommand = false;
    private bool $wasSignal = false;

    public function __construct(private readonly Client $client)
    {
    }

    /** Whether a signal has stopped the worker, and it has ended. */
    public function wasStoppedBySignal(): bool
    {
        return $this->wasSignal;
    }

    public function start(stdClass $it): stdClass
    {
        $this->isStopCommand = false;
        $this->worker = new Worker($this->client, self::options($it));
        foreach ($it->queues as $queue) {
            $this->worker->handle($queue, self::handle(...));
        }
        $this->worker->start();
        $this->client->sender()->loop->spawn($this->watch(...));
        return new stdClass();
    }

    public function stop(stdClass $it): stdClass
    {
        $this->isStopCommand = true;
        $this->worker->stop(Arguments::duration($it->grace_ms ?? null));
        try {
            $this->worker->join();
        } catch (TidegateError) {
            // The event `worker_ended` has the error.
        }
        return new stdClass();
    }

    private static function options(stdClass $it): WorkerOptions
    {
        return new WorkerOptions(
            slots: $it->slots ?? 64,
            prefetch: $it->prefetch ?? 0,
            name: $it->name ?? null,
            lease: Arguments::duration($it->lease_ms ?? null),
            wait: Arguments::duration($it->wait_ms ?? null),
            maxRun: Arguments::duration($it->max_run_ms ?? null),
            strict: $it->strict ?? false,
            weights: (array) ($it->weights ?? []),
        );
    }

    private function watch(): void
    {
        try {
            $this->worker->join();
        } catch (TidegateError $error) {
            Output::write(['event' => 'worker_ended', 'error' => Output::error($error)]);
            return;
        }
        Output::write(['event' => 'worker_ended']);
        $this->wasSignal = !$this->isStopCommand;
    }

    private static function handle(Job $job): mixed
    {
        $it = $job->isJson() ? $job->payload(associative: false) : null;
        $it = $it instanceof stdClass ? $it : new stdClass();
        $shown = ['job' => $job->id, 'attempt' => $job->attempt];
        Output::write(['event' => 'started', ...$shown, 'queue' => $job->queue]);
        try {
            if (isset($it->sleep_ms)) {
                $job->sleep(Duration::milliseconds($it->sleep_ms));
            }
            self::block(($it->block_ms ?? 0) / 1000);
            $value = self::ended($it);
        } catch (JobAborted $aborted) {
            Output::write(['event' => 'aborted', ...$shown, 'reason' => $aborted->reason->value]);
            throw $aborted;
        } catch (RuntimeException $error) {
            Output::write(['event' => 'ended', ...$shown]);
            throw $error;
        }
        Output::write(['event' => 'ended', ...$shown]);
        return $value;
    }

    private static function block(float $seconds): void
    {
        $until = hrtime(true) / 1e9 + $seconds;
        // A signal cuts a sleep short.
        while (($left = $until - hrtime(true) / 1e9) > 0) {
            usleep((int) ceil($left * 1e6));
        }
    }

    private static function ended(stdClass $it): mixed
    {
        return match ($it->then ?? 'ok') {
            'ok' => null,
            'result' => $it->result,
            'fail' => throw new RuntimeException($it->error),
            'retry_in' => new RetryIn('asked', Duration::milliseconds($it->ms)),
            'dead' => new Dead('asked'),
            'snooze' => new Snooze(Duration::milliseconds($it->ms)),
        };
    }
}
