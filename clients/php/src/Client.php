<?php

declare(strict_types=1);

namespace Tidegate;

use Closure;
use DateInterval;
use Generator;
use SensitiveParameter;
use stdClass;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\GuzzleTransport;
use Tidegate\Http\Pages;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\Http\Transport;
use Tidegate\Loop\Loop;
use Tidegate\Publish\PreparedJob;
use Tidegate\Publish\Publisher;
use Tidegate\Publish\Results;

/**
 * A client of a namespace. It keeps its connections open, so make one for each process.
 *
 * Each method sends a request and waits for the answer. {@see Client::concurrently()} runs several at the same time.
 */
final class Client
{
    public const VERSION = '0.1.0';

    private const TIME_LIMIT = 10.0;

    private readonly Sender $sender;
    private readonly Publisher $publisher;
    private readonly Closure $traceParent;

    /**
     * Makes a client. Sends nothing.
     *
     * @param string|null $url such as `https://tidegate.example.com`; default: the variable TIDEGATE_URL
     * @param string|null $key the API key; default: the variable TIDEGATE_KEY
     * @param string|null $namespace default: the variable TIDEGATE_NAMESPACE
     * @param Duration|DateInterval|null $timeLimit how long a request may take, besides its wait; default: 10 s
     * @param RepeatLimits|null $repeat how often requests are repeated after errors
     * @param Transport|null $transport default: a {@see GuzzleTransport}
     * @param Closure(TidegateError, float): void|null $onRepeat is told the error, and the delay in seconds, before a
     *        repetition
     * @param Closure(): ?string|null $traceParent returns the `traceparent` of the running span; default: asks
     *        OpenTelemetry if it is present
     * @throws InvalidRequestError if an argument is missing or not valid
     */
    public function __construct(
        ?string $url = null,
        #[SensitiveParameter]
        ?string $key = null,
        ?string $namespace = null,
        Duration|DateInterval|null $timeLimit = null,
        ?RepeatLimits $repeat = null,
        ?Transport $transport = null,
        ?Closure $onRepeat = null,
        ?Closure $traceParent = null,
    ) {
        $connection = Connection::of($url, $key, $namespace);
        $this->sender = new Sender(
            new Loop($transport ?? new GuzzleTransport()),
            $connection,
            'tidegate-php/' . self::VERSION,
            $timeLimit === null ? self::TIME_LIMIT : Duration::from($timeLimit)->inSeconds(),
            $repeat ?? new RepeatLimits(),
            $onRepeat,
        );
        $this->publisher = new Publisher($this->sender);
        $this->traceParent = $traceParent ?? Traces::current(...);
    }

    /**
     * Publishes a job.
     *
     * @param mixed $payload a value for JSON, or {@see Bytes}; up to 1 MiB
     * @throws TidegateError
     */
    public function publish(string $queue, mixed $payload, ?PublishOptions $options = null): PublishedJob
    {
        return $this->publisher->publish($this->prepare($queue, $payload, $options));
    }

    /**
     * Publishes up to 1,000 jobs in one request, in this order.
     *
     * @param iterable<BatchJob> $jobs
     * @param bool $atomic whether all jobs are stored or none; up to 64 jobs
     * @return list<PublishedJob|TidegateError> the result of each job
     * @throws TidegateError if the batch is rejected as a whole
     */
    public function publishBatch(string $queue, iterable $jobs, bool $atomic = false): array
    {
        $prepared = [];
        foreach ($jobs as $job) {
            $prepared[] = $this->prepare($queue, $job->payload, $job->options);
        }
        if ($prepared === []) {
            return [];
        }
        $answer = $this->sender->send(PreparedJob::batch($prepared, $atomic));
        return array_map(Publisher::result(...), $answer->results(count($prepared)));
    }

    /**
     * Publishes a job and waits for its result. Needs the scopes `publish` and `read`.
     *
     * @param Duration|DateInterval $wait a wait of more than 20 s takes several requests
     * @return JobResult|PendingJob the latter if the job has not ended in time: it stays in its queue
     * @throws TidegateError `job_dead`; `job_not_found` if the job was cancelled
     */
    public function call(
        string $queue,
        mixed $payload,
        Duration|DateInterval $wait,
        ?PublishOptions $options = null,
    ): JobResult|PendingJob {
        $job = $this->prepare($queue, $payload, $options);
        return (new Results($this->sender))->call($job, Duration::from($wait));
    }

    /**
     * Reserves ready jobs, without a {@see Worker\Worker}.
     *
     * @param non-empty-list<string>|non-empty-array<string, int> $queues up to 16 names, or names with weights
     * @param int $maxJobs 1 to 256
     * @param Duration|DateInterval|null $wait how long the server waits for a job, up to 24 h; default: not
     * @param Duration|DateInterval|null $lease 100 ms to 24 h; default: as the job or the policy says
     * @param string|null $worker a name with which the worker is listed
     * @return list<ReservedJob>
     * @throws TidegateError
     */
    public function reserve(
        array $queues,
        int $maxJobs = 1,
        Duration|DateInterval|null $wait = null,
        Duration|DateInterval|null $lease = null,
        ?string $worker = null,
    ): array {
        $wait = Duration::from($wait ?? Duration::milliseconds(0));
        $body = [
            'queues' => self::queueChoices($queues),
            'max_jobs' => $maxJobs,
            'wait' => (string) $wait,
        ];
        if ($lease !== null) {
            $body['lease'] = (string) Duration::from($lease);
        }
        if ($worker !== null) {
            $body['worker'] = $worker;
        }
        $request = Request::json('POST', '/reserve', $body, true, $wait->inSeconds());
        $jobs = $this->sender->send($request)->document()->jobs;
        return array_map(static fn (stdClass $job): ReservedJob => new ReservedJob($job), $jobs);
    }

    /**
     * Acknowledges up to 1,000 jobs.
     *
     * @param non-empty-list<string|Ack> $leases leases, or leases with results
     * @return list<Outcome> one for each lease; `gone` and `lost` are no errors
     * @throws TidegateError
     */
    public function ack(array $leases): array
    {
        $item = static fn (string|Ack $item): mixed => $item instanceof Ack ? $item->toWire() : $item;
        return $this->settle('/ack', ['leases' => array_map($item, $leases)]);
    }

    /**
     * Reports up to 1,000 attempts that failed.
     *
     * @param non-empty-list<string> $leases
     * @param string $error the reason; 1,024 bytes of it are stored
     * @param Duration|DateInterval|null $retryIn when the jobs are due again; default: as in the retry policy
     * @param bool $dead whether no attempt can succeed
     * @return list<Outcome> one for each lease
     * @throws TidegateError
     */
    public function fail(
        array $leases,
        string $error,
        Duration|DateInterval|null $retryIn = null,
        bool $dead = false,
    ): array {
        $rest = array_filter([
            'retry_in' => $retryIn === null ? null : (string) Duration::from($retryIn),
            'dead' => $dead ?: null,
        ], static fn (mixed $value): bool => $value !== null);
        $item = static fn (string $lease): array => ['lease' => $lease, 'error' => mb_scrub($error, 'UTF-8'), ...$rest];
        return $this->settle('/fail', ['leases' => array_map($item, $leases)]);
    }

    /**
     * Extends up to 1,000 leases.
     *
     * @param non-empty-list<string> $leases
     * @param Duration|DateInterval|null $lease the length from now on; default: as the job or the policy says
     * @return list<Outcome> one for each lease
     * @throws TidegateError
     */
    public function touch(array $leases, Duration|DateInterval|null $lease = null): array
    {
        $rest = $lease === null ? [] : ['lease' => (string) Duration::from($lease)];
        return $this->settle('/touch', ['leases' => $leases, ...$rest]);
    }

    /**
     * Gives up to 1,000 jobs back. This is no failure.
     *
     * @param non-empty-list<string> $leases
     * @param Duration|DateInterval|null $delay when the jobs are due again; default: now
     * @return list<Outcome> one for each lease
     * @throws TidegateError
     */
    public function release(array $leases, Duration|DateInterval|null $delay = null): array
    {
        $rest = $delay === null ? [] : ['delay' => (string) Duration::from($delay)];
        return $this->settle('/release', ['leases' => $leases, ...$rest]);
    }

    /** A queue of the namespace. Sends nothing. */
    public function queue(string $name): Queue
    {
        return new Queue($this->sender, $name);
    }

    /**
     * All queues with their numbers of jobs, page by page. Needs the scope `read`.
     *
     * @return Generator<int, stdClass>
     * @throws TidegateError
     */
    public function queues(): Generator
    {
        return Pages::read($this->sender, '/queues', uniqueBy: 'queue');
    }

    /** The schedules of the namespace. Sends nothing. */
    public function schedules(): Schedules
    {
        return new Schedules($this->sender);
    }

    /** The API keys of the namespace. Sends nothing. */
    public function keys(): Keys
    {
        return new Keys($this->sender);
    }

    /**
     * Runs functions at the same time: while one waits for its answer, others go on. Publishes to a queue that meet are
     * sent together.
     *
     * @template T
     * @param iterable<array-key, Closure(): T> $functions
     * @param int $limit the most functions at a time
     * @return array<array-key, T> their results, with their keys
     * @throws \Throwable the first error, when all functions that were begun have ended
     */
    public function concurrently(iterable $functions, int $limit = 64): array
    {
        return $this->sender->loop->concurrently($functions, $limit);
    }

    /**
     * The sender of requests, for workers.
     *
     * @internal
     */
    public function sender(): Sender
    {
        return $this->sender;
    }

    /**
     * @internal
     *
     * @param array<int|string, string|int> $queues
     * @return list<mixed>
     */
    public static function queueChoices(array $queues): array
    {
        if (array_is_list($queues)) {
            return $queues;
        }
        $choice = static fn (string|int $name, int $weight): array => ['name' => (string) $name, 'weight' => $weight];
        return array_map($choice, array_keys($queues), $queues);
    }

    private function prepare(string $queue, mixed $payload, ?PublishOptions $options): PreparedJob
    {
        return PreparedJob::of($queue, $payload, $options, ($this->traceParent)());
    }

    /**
     * @param array<string, mixed> $body
     * @return list<Outcome>
     */
    private function settle(string $path, array $body): array
    {
        // A lease names one attempt, so a repetition changes nothing more.
        $answer = $this->sender->send(Request::json('POST', $path, $body, true));
        return array_map(Outcome::of(...), $answer->results(count($body['leases'])));
    }
}
