<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use stdClass;
use Tidegate\Http\Answer;
use Tidegate\Http\Json;
use Tidegate\Http\Request;
use Tidegate\Http\Transport;
use Tidegate\Loop\Future;

/**
 * Answers requests from the jobs of the fake. Nothing waits: a request for jobs is answered at once.
 *
 * @internal
 */
final class FakeTransport implements Transport
{
    private const PATH = '#/v1/[^/]+(?:/queues/(?<queue>[^/]+))?'
        . '/(?<route>jobs/batch|jobs/call|jobs|reserve|ack|fail|touch|release)'
        . '(?:/(?<job>[^/]+))?(?:/(?<part>[a-z]+))?$#';

    public function __construct(private readonly FakeJobs $jobs)
    {
    }

    public function start(Request $request, float $timeLimit): Future
    {
        $future = new Future();
        $future->complete($this->exchange($request, $timeLimit));
        return $future;
    }

    public function tick(float $seconds): void
    {
        $seconds <= 0.0 ?: usleep((int) ceil($seconds * 1e6));
    }

    public function exchange(Request $request, float $timeLimit): Answer
    {
        try {
            return $this->answer($request);
        } catch (FakeProblem $problem) {
            return $problem->answer();
        }
    }

    private function answer(Request $request): Answer
    {
        $path = parse_url($request->target, PHP_URL_PATH);
        if (preg_match(self::PATH, $path, $match, PREG_UNMATCHED_AS_NULL) !== 1) {
            return $this->counts($request, $path);
        }
        $query = [];
        parse_str(str_replace('+', '%2B', parse_url($request->target, PHP_URL_QUERY) ?? ''), $query);
        $queue = rawurldecode($match['queue'] ?? '');
        return match (true) {
            $match['job'] !== null => $this->ofJob($request, $queue, $match['job'], $match['part'] ?? '', $query),
            $match['route'] === 'jobs/batch' => $this->batch($queue, self::body($request)),
            $request->method === 'POST' && in_array($match['route'], ['jobs', 'jobs/call'], true)
                => $this->publish($request, $queue, $query),
            $match['route'] === 'jobs' => self::json(200, ['items' => $this->shownAll($queue), 'next' => null]),
            $match['route'] === 'reserve' => $this->reserve(self::body($request)),
            default => self::json(200, ['results' => $this->settle($match['route'], self::body($request))]),
        };
    }

    private function counts(Request $request, string $path): Answer
    {
        if ($request->method !== 'GET' || preg_match('#/queues/([^/]+)$#', $path, $match) !== 1) {
            throw new FakeProblem(404, 'route_not_found', "The fake does not know $request->method $path.");
        }
        $queue = rawurldecode($match[1]);
        $counts = ['delayed' => 0, 'ready' => 0, 'leased' => 0, 'dead' => 0, 'done' => 0];
        foreach ($this->jobs->all($queue) as $job) {
            $counts[$job->state]++;
        }
        return self::json(200, ['queue' => $queue, 'jobs' => $counts, 'paused' => false, 'closed' => false]);
    }

    /** @return list<stdClass> */
    private function shownAll(string $queue): array
    {
        return array_map(static fn (FakeJob $job): stdClass => $job->shown(), $this->jobs->all($queue));
    }

    /** @param array<string, string> $options */
    private function publish(Request $request, string $queue, array $options): Answer
    {
        $hasWait = isset($options['wait']);
        unset($options['wait']);
        $attributes = [];
        foreach ($request->headers as $name => $value) {
            if (str_starts_with($name, 'Job-Attr-')) {
                $attributes[substr($name, strlen('Job-Attr-'))] = $value;
            }
        }
        if (isset($request->headers['Idempotency-Key'])) {
            $options['idempotency_key'] = $request->headers['Idempotency-Key'];
        }
        if (isset($options['retry'])) {
            $options['retry'] = Json::decode($options['retry'], true);
        }
        $payload = new FakePayload($request->body, $request->headers['Content-Type']);
        [$outcome, $job] = $this->jobs->publish($queue, $payload, $options, $attributes);
        if ($hasWait && $job->state === 'done') {
            return self::result($job);
        }
        return self::json($hasWait ? 202 : ($outcome === 'created' ? 201 : 200), $job->published($outcome));
    }

    private function batch(string $queue, stdClass $body): Answer
    {
        $results = [];
        foreach ($body->jobs as $item) {
            $options = (array) $item;
            unset($options['payload'], $options['payload_base64'], $options['content_type'], $options['attributes']);
            $attributes = (array) ($item->attributes ?? []);
            try {
                $payload = FakePayload::of($item, 'payload');
                [$outcome, $job] = $this->jobs->publish($queue, $payload, $options, $attributes);
                $results[] = $job->published($outcome);
            } catch (FakeProblem $problem) {
                $results[] = ['problem' => $problem->document()];
            }
        }
        return self::json(200, ['results' => $results]);
    }

    /** @param array<string, string> $query */
    private function ofJob(Request $request, string $queue, string $part, string $what, array $query): Answer
    {
        $name = rawurldecode($part);
        $key = $query['key'] ?? (str_starts_with($name, 'key:') ? substr($name, 4) : null);
        $job = $this->jobs->find($queue, $name, $key);
        return match ([$request->method, $what]) {
            ['GET', ''] => self::json(200, $job->shown()),
            ['GET', 'payload'] => new Answer(200, ['content-type' => $job->payload->contentType], $job->payload->bytes),
            ['GET', 'result'] => self::result($job),
            ['POST', 'promote'] => $this->change($job, 'promoted', (object) ['delay' => '0ms']),
            ['PATCH', ''] => $this->change($job, 'changed', self::body($request)),
            ['DELETE', ''] => $this->cancel($job, $query['running'] ?? 'refuse'),
            default => throw new FakeProblem(404, 'route_not_found', "The fake does not know $what."),
        };
    }

    private static function result(FakeJob $job): Answer
    {
        if ($job->state === 'dead') {
            throw new FakeProblem(409, 'job_dead', 'The job is in the dead letter.');
        }
        if ($job->state !== 'done') {
            return self::json(202, $job->published('exists'));
        }
        $headers = ['tidegate-job-id' => $job->id, 'content-type' => $job->result?->contentType ?? ''];
        return new Answer($job->result === null ? 204 : 200, $headers, $job->result?->bytes ?? '');
    }

    private function change(FakeJob $job, string $outcome, stdClass $change): Answer
    {
        if (!in_array($job->state, ['delayed', 'ready'], true)) {
            $code = $job->state === 'leased' ? 'job_running' : 'job_dead';
            throw new FakeProblem(409, $code, "The job is $job->state.");
        }
        $fields = (array) $change;
        $job->options = [...$job->options, ...$fields];
        if (isset($fields['delay']) || isset($fields['run_at'])) {
            unset($job->options[isset($fields['delay']) ? 'run_at' : 'delay']);
            $job->schedule($this->jobs->clock->nowMs());
        }
        return self::json(200, $job->published($outcome));
    }

    private function cancel(FakeJob $job, string $running): Answer
    {
        if ($job->state === 'leased' && $running === 'refuse') {
            throw new FakeProblem(409, 'job_running', 'A worker holds the job.');
        }
        if ($job->state === 'dead') {
            throw new FakeProblem(409, 'job_dead', 'The job is in the dead letter.');
        }
        if ($job->state === 'leased' && $running === 'ask') {
            $job->cancelRequested = true;
            return self::json(202, ['outcome' => 'cancel_requested', 'id' => $job->id]);
        }
        if ($job->state === 'done') {
            return self::json(200, ['outcome' => 'already_done', 'id' => $job->id]);
        }
        $this->jobs->remove($job);
        $outcome = $job->state === 'leased'
            ? ['outcome' => 'revoked']
            : ['outcome' => 'cancelled', 'was' => $job->state];
        return self::json(200, [...$outcome, 'id' => $job->id]);
    }

    private function reserve(stdClass $body): Answer
    {
        $settled = [];
        foreach ((array) ($body->settle ?? []) as $route => $leases) {
            $settled[$route] = $this->settle($route, (object) ['leases' => $leases]);
        }
        $name = static fn (string|stdClass $queue): string => is_string($queue) ? $queue : $queue->name;
        $leaseMs = isset($body->lease) ? FakeDuration::ms($body->lease) : null;
        $jobs = $this->jobs->reserve(array_map($name, $body->queues), $body->max_jobs ?? 1, $leaseMs);
        return self::json(200, [
            'now' => FakeDuration::instantText($this->jobs->clock->nowMs()),
            'jobs' => array_map(static fn (FakeJob $job): stdClass => $job->delivered(), $jobs),
            ...($settled === [] ? [] : ['settled' => $settled]),
        ]);
    }

    /** @return list<stdClass> */
    private function settle(string $route, stdClass $body): array
    {
        $outcome = function (string|stdClass $item) use ($route, $body): stdClass {
            $item = is_string($item) ? (object) ['lease' => $item] : $item;
            $job = $this->jobs->held($item->lease);
            return match (true) {
                is_string($job) => (object) ['outcome' => $job],
                $route === 'ack' => $this->jobs->done($job, FakePayload::of($item, 'result')),
                $route === 'fail'
                    => $this->jobs->failed($job, $item->error, $item->retry_in ?? null, $item->dead ?? false),
                $route === 'release' => $this->jobs->released($job, $body->delay ?? null),
                default => $this->touch($job, $body->lease ?? null),
            };
        };
        return array_map($outcome, $body->leases);
    }

    private function touch(FakeJob $job, ?string $lease): stdClass
    {
        $ms = $job->leaseMs($lease === null ? null : FakeDuration::ms($lease));
        $job->leaseUntil = max($job->leaseUntil, $this->jobs->clock->nowMs() + $ms);
        $rest = $job->cancelRequested ? ['cancel_requested' => true] : [];
        return (object) [
            'outcome' => 'extended',
            'lease_until' => FakeDuration::instantText($job->leaseUntil),
            ...$rest,
        ];
    }

    private static function body(Request $request): stdClass
    {
        return (object) Json::decode($request->body, false);
    }

    private static function json(int $status, mixed $document): Answer
    {
        return new Answer($status, ['content-type' => 'application/json'], Json::encode($document));
    }
}
