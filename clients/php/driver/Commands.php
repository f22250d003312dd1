<?php

declare(strict_types=1);

namespace Tidegate\Driver;

use Generator;
use LogicException;
use stdClass;
use Tidegate\BatchJob;
use Tidegate\Bytes;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\TidegateError;
use Tidegate\IfRunning;
use Tidegate\JobHandle;
use Tidegate\Outcome;
use Tidegate\PendingJob;
use Tidegate\PublishedJob;
use Tidegate\Queue;
use Tidegate\ReservedJob;

/** The commands of the driver, but those of the worker. */
final class Commands
{
    public function __construct(private readonly Client $client)
    {
    }

    public function run(stdClass $it): mixed
    {
        return match ($it->do) {
            'publish' => $this->publish($it)->document,
            'publish_batch' => $this->publishBatch($it),
            'publish_many' => $this->publishMany($it),
            'call' => $this->call($it),
            'reserve' => $this->reserve($it),
            'ack' => self::outcomes($this->client->ack($it->leases)),
            'touch' => self::outcomes($this->client->touch(...self::leases($it, 'lease_ms'))),
            'release' => self::outcomes($this->client->release(...self::leases($it, 'delay_ms'))),
            'fail' => $this->fail($it),
            'queues' => iterator_to_array($this->client->queues(), false),
            'set_schedule' => $this->client->schedules()->set($it->name, $it->schedule),
            'schedule' => $this->client->schedules()->show($it->name),
            'schedules' => iterator_to_array($this->client->schedules()->all(), false),
            'next_runs' => $this->client->schedules()
                ->nextRunsDocument($it->name, ...self::given(count: $it->count ?? null)),
            'delete_schedule' => $this->client->schedules()->delete($it->name),
            'create_key' => $this->client->keys()->createFrom($it->key),
            'keys' => iterator_to_array($this->client->keys()->all(), false),
            'revoke_key' => $this->client->keys()->revoke($it->key_id),
            default => isset($it->job) ? $this->ofJob($it) : $this->ofQueue($it, $this->client->queue($it->queue)),
        };
    }

    private function ofQueue(stdClass $it, Queue $queue): mixed
    {
        return match ($it->do) {
            'queue' => $queue->counts(),
            'policy' => $queue->policy(),
            'set_policy' => $queue->setPolicy($it->policy),
            'delete_queue' => $queue->delete(),
            'purge' => ['deleted' => $queue->purge($it->state)],
            'respawn' => ['respawned' => $queue->respawn($it->limit ?? null)],
            'list_jobs' => self::all($queue->jobs(
                Arguments::filter($it->filter ?? null),
                ...self::given(pageSize: $it->page_size ?? null),
            )),
            'act' => $this->act($it, $queue),
            default => throw new LogicException("no command $it->do"),
        };
    }

    private function ofJob(stdClass $it): mixed
    {
        $job = $this->job($it);
        return match ($it->do) {
            'show' => $job->show(),
            'explain' => $job->explain(),
            'payload' => Arguments::shown($job->payload(), 'payload'),
            'result' => $this->result($it, $job),
            'promote' => $job->promote(),
            'change' => $job->change(Arguments::change($it->options)),
            'cancel' => $job->cancel(...self::given(running: self::running($it->running ?? null))),
            default => throw new LogicException("no command $it->do"),
        };
    }

    private function publish(stdClass $it): PublishedJob
    {
        return $this->client->publish($it->queue, Arguments::payload($it), Arguments::publishOptions($it));
    }

    /** @return list<mixed> */
    private function publishBatch(stdClass $it): array
    {
        $job = static fn (stdClass $job): BatchJob
            => new BatchJob(Arguments::payload($job), Arguments::publishOptions($job));
        $jobs = array_map($job, $it->jobs);
        $results = $this->client->publishBatch($it->queue, $jobs, $it->atomic ?? false);
        $shown = static fn (PublishedJob|TidegateError $result): mixed
            => $result instanceof PublishedJob ? $result->document : ['error' => Output::error($result)];
        return array_map($shown, $results);
    }

    /** @return array<string, int> */
    private function publishMany(stdClass $it): array
    {
        $payload = new Bytes(str_repeat('x', $it->payload_bytes ?? 0));
        $functions = (function () use ($it, $payload): Generator {
            for ($number = 0; $number < $it->count; $number++) {
                yield fn (): PublishedJob => $this->client->publish($it->queue, $payload);
            }
        })();
        return ['published' => count($this->client->concurrently($functions, $it->concurrency ?? 1))];
    }

    /** @return array<string, mixed> */
    private function call(stdClass $it): array
    {
        $wait = Arguments::duration($it->wait_ms);
        $result = $this->client->call($it->queue, Arguments::payload($it), $wait, Arguments::publishOptions($it));
        return $result instanceof PendingJob ? ['pending' => $result->id] : Arguments::shown($result, 'result');
    }

    /** @return array<string, mixed> */
    private function result(stdClass $it, JobHandle $job): array
    {
        $result = $job->result(Arguments::duration($it->wait_ms ?? null));
        return $result === null
            ? ['pending' => $it->job->id ?? $job->show()->id]
            : Arguments::shown($result, 'payload');
    }

    /** @return list<mixed> */
    private function reserve(stdClass $it): array
    {
        $jobs = $this->client->reserve(
            $it->queues,
            $it->max_jobs ?? 1,
            Arguments::duration($it->wait_ms ?? null),
            Arguments::duration($it->lease_ms ?? null),
        );
        return array_map(self::reserved(...), $jobs);
    }

    /** @return array<string, mixed> */
    private static function reserved(ReservedJob $job): array
    {
        $payload = $job->isJson()
            ? ['payload' => $job->payload(associative: false)]
            : ['payload_base64' => base64_encode($job->bytes())];
        return [
            'id' => $job->id,
            'queue' => $job->queue,
            'lease' => $job->lease,
            'attempt' => $job->attempt,
            'failures' => $job->failures,
            ...$payload,
            'content_type' => $job->contentType,
            'attributes' => (object) $job->attributes,
            'key' => $job->key,
            'group' => $job->group,
        ];
    }

    /** @return array{list<string>, ?Duration} */
    private static function leases(stdClass $it, string $time): array
    {
        return [$it->leases, Arguments::duration($it->{$time} ?? null)];
    }

    /** @return list<stdClass> */
    private function fail(stdClass $it): array
    {
        $retryIn = Arguments::duration($it->retry_in_ms ?? null);
        return self::outcomes($this->client->fail($it->leases, $it->error, $retryIn, $it->dead ?? false));
    }

    /** @return array<string, int> */
    private function act(stdClass $it, Queue $queue): array
    {
        $options = $it->options ?? new stdClass();
        // The options of a change may be given as those of the command `change`.
        $change = $options->change ?? ($it->action === 'change' ? $options : null);
        return $queue->act(
            $it->action,
            Arguments::filter($it->filter ?? null),
            self::running($options->running ?? null),
            $change === null ? null : Arguments::change($change),
            $options->rate_per_second ?? null,
            $it->dry_run ?? false,
        );
    }

    private function job(stdClass $it): JobHandle
    {
        $queue = $this->client->queue($it->queue);
        return isset($it->job->id) ? $queue->job($it->job->id) : $queue->jobWithKey($it->job->key);
    }

    private static function running(?string $running): ?IfRunning
    {
        return $running === null ? null : IfRunning::from($running);
    }

    /**
     * @param list<Outcome> $outcomes
     * @return list<stdClass>
     */
    private static function outcomes(array $outcomes): array
    {
        return array_map(static fn (Outcome $outcome): stdClass => $outcome->document, $outcomes);
    }

    /** @return list<stdClass> */
    private static function all(Generator $items): array
    {
        return iterator_to_array($items, false);
    }

    /**
     * The arguments that are not absent.
     *
     * @return array<string, mixed>
     */
    private static function given(mixed ...$arguments): array
    {
        return array_filter($arguments, static fn (mixed $value): bool => $value !== null);
    }
}
