<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use stdClass;

/**
 * The jobs of the fake.
 *
 * @internal
 */
final class FakeJobs
{
    private const DEFAULT_ATTEMPTS = 10;
    private const DEFAULT_FIRST_MS = 1000;
    private const DEFAULT_MAX_MS = 3_600_000;

    /** @var array<string, FakeJob> by their ids */
    private array $jobs = [];
    /** @var array<string, string> the ids of the jobs by their idempotency keys */
    private array $remembered = [];
    /** @var list<PublishedCall> */
    private array $published = [];
    private int $count = 0;

    public function __construct(public readonly FakeClock $clock)
    {
    }

    /**
     * @param array<string, mixed> $options of the wire
     * @param array<string, string> $attributes
     * @return array{string, FakeJob} the outcome and the job
     */
    public function publish(string $queue, FakePayload $payload, array $options, array $attributes): array
    {
        $this->settle();
        $idempotencyKey = $options['idempotency_key'] ?? null;
        unset($options['idempotency_key']);
        $first = $this->jobs[$this->remembered["$queue $idempotencyKey"] ?? ''] ?? null;
        if ($idempotencyKey !== null && $first !== null) {
            return ['created', $first];
        }
        $existing = isset($options['key']) ? $this->byKey($queue, $options['key']) : null;
        $published = $existing === null
            ? $this->create($queue, $payload, $options, $attributes)
            : $this->publishAgain($existing, $payload, $options, $attributes);
        $this->remembered["$queue $idempotencyKey"] = $published[1]->id;
        [$outcome, $job] = $published;
        $this->published[] = new PublishedCall($queue, $payload, $options, $attributes, $outcome, $job->runAt);
        return $published;
    }

    /** @return list<PublishedCall> */
    public function published(): array
    {
        return $this->published;
    }

    /** @return list<FakeJob> of a queue, in the order in which they are due */
    public function all(string $queue): array
    {
        $this->settle();
        $jobs = array_filter($this->jobs, static fn (FakeJob $job): bool => $job->queue === $queue);
        usort($jobs, self::order(...));
        return $jobs;
    }

    public function find(string $queue, string $id, ?string $key): FakeJob
    {
        $this->settle();
        $job = $key === null ? $this->jobs[$id] ?? null : $this->byKey($queue, $key);
        if ($job === null || $job->queue !== $queue) {
            throw new FakeProblem(404, 'job_not_found', 'The queue has no job with this id or key.');
        }
        return $job;
    }

    public function remove(FakeJob $job): void
    {
        unset($this->jobs[$job->id]);
    }

    /**
     * @param list<string> $queues
     * @return list<FakeJob>
     */
    public function reserve(array $queues, int $most, ?int $leaseMs): array
    {
        $reserved = [];
        foreach ($queues as $queue) {
            foreach ($this->all($queue) as $job) {
                if ($job->state === 'ready' && count($reserved) < $most) {
                    $job->begin($this->clock->nowMs(), $leaseMs);
                    $reserved[] = $job;
                }
            }
        }
        return $reserved;
    }

    /** The job of a lease, or `lost` or `gone`. */
    public function held(string $lease): FakeJob|string
    {
        $this->settle();
        $job = $this->jobs[explode('.', $lease)[0]] ?? null;
        return match (true) {
            $job === null => 'gone',
            $job->state === 'done' && $job->lease() === $lease => 'gone',
            $job->state !== 'leased' || $job->lease() !== $lease => 'lost',
            default => $job,
        };
    }

    public function done(FakeJob $job, ?FakePayload $result): stdClass
    {
        if ($job->isReplaced) {
            return $this->rerun($job);
        }
        $job->state = 'done';
        $job->doneAt = $this->clock->nowMs();
        $job->result = $result;
        return (object) ['outcome' => 'done'];
    }

    public function failed(FakeJob $job, string $error, ?string $retryIn, bool $isDead): stdClass
    {
        if ($job->isReplaced || $job->cancelRequested) {
            return $this->rerun($job);
        }
        $now = $this->clock->nowMs();
        $job->failures++;
        $ended = FakeDuration::instantText($now);
        $job->history[] = ['attempt' => $job->attempt, 'ended_at' => $ended, 'error' => $error];
        $retry = (array) ($job->options['retry'] ?? []);
        $attempts = $job->options['max_attempts'] ?? $retry['max_attempts'] ?? self::DEFAULT_ATTEMPTS;
        if ($isDead || $job->failures >= $attempts) {
            $job->die($isDead ? 'permanent' : 'failures');
            return (object) ['outcome' => 'dead'];
        }
        $delay = $retryIn === null ? self::retryMs($retry, $job->failures) : FakeDuration::ms($retryIn);
        $job->dueAt($now + $delay, $now);
        return (object) ['outcome' => 'retry', 'run_at' => FakeDuration::instantText($job->runAt)];
    }

    public function released(FakeJob $job, ?string $delay): stdClass
    {
        if ($job->isReplaced || $job->cancelRequested) {
            return $this->rerun($job);
        }
        $now = $this->clock->nowMs();
        $job->dueAt($now + FakeDuration::ms($delay ?? '0ms'), $now);
        return (object) ['outcome' => 'released'];
    }

    private function rerun(FakeJob $job): stdClass
    {
        if (!$job->isReplaced) {
            $this->remove($job);
            return (object) ['outcome' => 'cancelled'];
        }
        $job->isReplaced = false;
        $job->schedule($this->clock->nowMs());
        return (object) ['outcome' => 'rerun'];
    }

    private function settle(): void
    {
        foreach ($this->jobs as $job) {
            $job->settle($this->clock->nowMs()) ?: $this->remove($job);
        }
    }

    private function byKey(string $queue, string $key): ?FakeJob
    {
        foreach ($this->jobs as $job) {
            if ($job->queue === $queue && $job->key() === $key) {
                return $job;
            }
        }
        return null;
    }

    /** @return array{string, FakeJob} */
    private function create(string $queue, FakePayload $payload, array $options, array $attributes): array
    {
        $id = sprintf('FAKE%022d', ++$this->count);
        $job = new FakeJob($id, $queue, $payload, $attributes, $options, $this->clock->nowMs());
        $this->jobs[$id] = $job;
        return ['created', $job];
    }

    /** @return array{string, FakeJob} */
    private function publishAgain(FakeJob $job, FakePayload $payload, array $options, array $attributes): array
    {
        $rule = $options['if_exists'] ?? 'keep';
        if ($job->state === 'done' && $rule === 'replace') {
            $this->remove($job);
            return $this->create($job->queue, $payload, $options, $attributes);
        }
        if ($job->state !== 'dead' && $rule === 'reject') {
            throw new FakeProblem(409, 'key_taken', 'A job has this key, and `if_exists` is `reject`.');
        }
        $isAsked = $job->state === 'leased' && $job->cancelRequested;
        if ($job->state === 'done' || ($job->state !== 'dead' && $rule === 'keep' && !$isAsked)) {
            return ['exists', $job];
        }
        [$job->payload, $job->options, $job->attributes] = [$payload, $options, $attributes];
        $job->cancelRequested = false;
        if ($job->state === 'leased') {
            $job->isReplaced = true;
            return ['rerun', $job];
        }
        $outcome = $job->state === 'dead' ? 'revived' : 'replaced';
        [$job->failures, $job->losses, $job->deadReason] = [0, 0, null];
        $job->schedule($this->clock->nowMs());
        return [$outcome, $job];
    }

    private static function order(FakeJob $one, FakeJob $other): int
    {
        $priority = ($other->options['priority'] ?? 0) <=> ($one->options['priority'] ?? 0);
        return $priority ?: $one->runAt <=> $other->runAt ?: $one->id <=> $other->id;
    }

    /** @param array<string, mixed> $retry */
    private static function retryMs(array $retry, int $failures): int
    {
        if (isset($retry['every'])) {
            return FakeDuration::ms($retry['every']);
        }
        if (isset($retry['delays'])) {
            $delays = $retry['delays'];
            return FakeDuration::ms($delays[min($failures, count($delays)) - 1]);
        }
        $first = isset($retry['first']) ? FakeDuration::ms($retry['first']) : self::DEFAULT_FIRST_MS;
        $most = isset($retry['max']) ? FakeDuration::ms($retry['max']) : self::DEFAULT_MAX_MS;
        return (int) min($most, $first * ($retry['factor'] ?? 2) ** ($failures - 1));
    }
}
