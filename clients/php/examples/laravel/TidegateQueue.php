<?php

/**
 * A queue connection for Laravel. Copy it into an application, and register the connector in a service provider:
 *
 *     Queue::extend('tidegate', fn () => new TidegateConnector());
 *
 * with a connection in `config/queue.php`:
 *
 *     'tidegate' => ['driver' => 'tidegate', 'queue' => 'default', 'retry_after' => 90, 'block_for' => 5],
 *
 * `url`, `key` and `namespace` are by default as in the environment. `retry_after` is the lease in seconds: set it to
 * more than the longest job takes, as for the other connections of Laravel. `block_for` is how many seconds a request
 * for a job waits. `php artisan queue:work` then counts attempts, retries and failed jobs by its own rules.
 */

declare(strict_types=1);

namespace Tidegate\Examples\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Connectors\ConnectorInterface;
use Illuminate\Queue\Jobs\Job;
use Illuminate\Queue\Queue;
use Tidegate\Bytes;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\PublishOptions;
use Tidegate\ReservedJob;

final class TidegateConnector implements ConnectorInterface
{
    /** @param array<string, mixed> $config */
    public function connect(array $config): QueueContract
    {
        return new TidegateQueue(
            new Client($config['url'] ?? null, $config['key'] ?? null, $config['namespace'] ?? null),
            $config['queue'] ?? 'default',
            Duration::seconds($config['retry_after'] ?? 90),
            Duration::seconds($config['block_for'] ?? 5),
        );
    }
}

final class TidegateQueue extends Queue implements QueueContract
{
    public function __construct(
        private readonly Client $client,
        private readonly string $default,
        private readonly Duration $lease,
        private readonly Duration $wait,
    ) {
    }

    public function size($queue = null)
    {
        return $this->pendingSize($queue) + $this->delayedSize($queue) + $this->reservedSize($queue);
    }

    public function pendingSize($queue = null)
    {
        return $this->countOf($queue, 'ready');
    }

    public function delayedSize($queue = null)
    {
        return $this->countOf($queue, 'delayed');
    }

    public function reservedSize($queue = null)
    {
        return $this->countOf($queue, 'leased');
    }

    public function creationTimeOfOldestPendingJob($queue = null)
    {
        // There is no index by the time of the publish.
        return null;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->pushRaw($this->createPayload($job, $this->nameOf($queue), $data), $queue);
    }

    /** @param array<string, mixed> $options `delay` in seconds */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        $delay = isset($options['delay']) ? Duration::seconds($options['delay']) : null;
        $job = new Bytes($payload, 'application/json');
        return $this->client->publish($this->nameOf($queue), $job, new PublishOptions(delay: $delay))->id;
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->nameOf($queue), $data);
        return $this->pushRaw($payload, $queue, ['delay' => max(0, $this->secondsUntil($delay))]);
    }

    public function pop($queue = null)
    {
        $name = $this->nameOf($queue);
        $jobs = $this->client->reserve([$name], 1, $this->wait, $this->lease);
        return $jobs === []
            ? null
            : new TidegateJob($this->container, $this->client, $jobs[0], $this->connectionName, $name);
    }

    private function countOf(?string $queue, string $state): int
    {
        return $this->client->queue($this->nameOf($queue))->counts()->jobs->{$state};
    }

    private function nameOf(?string $queue): string
    {
        return $queue ?: $this->default;
    }
}

final class TidegateJob extends Job implements JobContract
{
    public function __construct(
        Container $container,
        private readonly Client $client,
        private readonly ReservedJob $reserved,
        string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    public function getJobId()
    {
        return $this->reserved->id;
    }

    public function getRawBody()
    {
        return $this->reserved->bytes();
    }

    public function attempts()
    {
        return $this->reserved->attempt;
    }

    /** Acknowledges the job: Laravel deletes jobs that are done, and jobs that have failed for good. */
    public function delete()
    {
        parent::delete();
        $this->client->ack([$this->reserved->lease]);
    }

    public function release($delay = 0)
    {
        parent::release($delay);
        $this->client->release([$this->reserved->lease], Duration::seconds((int) $delay));
    }
}
