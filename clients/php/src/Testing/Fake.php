<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use Closure;
use Throwable;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Http\Request;
use Tidegate\Worker\AbortReason;
use Tidegate\Worker\EndedHandler;
use Tidegate\Worker\HeldJob;
use Tidegate\Worker\Job;
use Tidegate\Worker\Report;

/**
 * A Tidegate in memory for the tests of an application, with a clock that can be moved.
 *
 * It knows publishes, batches, all about single jobs and leases, and the counts of queues. It does not know policies,
 * schedules, keys and actions on many jobs: a request for them fails with `route_not_found`. The retry of a job is as
 * its publish says, or as in the default policy, without a random part.
 */
final class Fake
{
    public readonly FakeClock $clock;
    private readonly FakeJobs $jobs;
    private readonly FakeTransport $transport;

    public function __construct(?FakeClock $clock = null)
    {
        $this->clock = $clock ?? new FakeClock();
        $this->jobs = new FakeJobs($this->clock);
        $this->transport = new FakeTransport($this->jobs);
    }

    /** A client of the fake. */
    public function client(): Client
    {
        return new Client('http://fake', 'fake', 'fake', transport: $this->transport);
    }

    /**
     * Runs handlers for the jobs that are due, until none is due. {@see Job::sleep()} moves the clock.
     *
     * @param array<string, callable(Job): mixed> $handlers by queue
     * @return int how many jobs have run
     */
    public function runDue(array $handlers): int
    {
        $count = 0;
        $queues = array_map(strval(...), array_keys($handlers));
        while (($jobs = $this->jobs->reserve($queues, 1, null)) !== []) {
            $this->runJob($jobs[0], $handlers[$jobs[0]->queue](...));
            $count++;
        }
        return $count;
    }

    /**
     * The publishes so far, in their order.
     *
     * @return list<PublishedCall>
     */
    public function published(?string $queue = null): array
    {
        $isMatch = static fn (PublishedCall $call): bool => $queue === null || $call->queue === $queue;
        return array_values(array_filter($this->jobs->published(), $isMatch));
    }

    /**
     * Fails the test if there was no such publish.
     *
     * @param Closure(PublishedCall): bool|null $matches default: any
     */
    public function assertPublished(string $queue, ?Closure $matches = null): void
    {
        $calls = $this->published($queue);
        $found = $matches === null ? $calls : array_filter($calls, $matches);
        if ($found === []) {
            $count = count($calls);
            self::failTest("no job that matches was published to the queue $queue; $count others were");
        }
        self::countAssertion();
    }

    /**
     * Fails the test if there was such a publish.
     *
     * @param Closure(PublishedCall): bool|null $matches default: any
     */
    public function assertNotPublished(string $queue, ?Closure $matches = null): void
    {
        if (array_filter($this->published($queue), $matches ?? static fn (): bool => true) !== []) {
            self::failTest("a job was published to the queue $queue");
        }
        self::countAssertion();
    }

    private function runJob(FakeJob $fake, Closure $handler): void
    {
        $pause = function (Job $job, float $seconds) use ($fake): void {
            $this->clock->advance(Duration::seconds($seconds));
            // The lease is extended meanwhile.
            $fake->leaseUntil = max($fake->leaseUntil, $this->clock->nowMs() + $fake->leaseMs(null));
        };
        $job = new Job($fake->delivered(), $pause, function () use (&$job, $fake): void {
            $fake->cancelRequested && $job->abort(AbortReason::CancelRequested);
        });
        try {
            $value = $handler($job);
            $end = static fn (): mixed => $value;
        } catch (Throwable $error) {
            $end = static fn (): mixed => throw $error;
        }
        $held = new HeldJob($job, 60.0, 0.0);
        $report = EndedHandler::of($held, $end, 0.0, null)->report;
        [$path, $body] = Report::request([$report]);
        $this->transport->exchange(Request::withJson('POST', "http://fake/v1/fake$path", $body, true), 1.0);
    }

    private static function failTest(string $text): never
    {
        $class = 'PHPUnit\Framework\AssertionFailedError';
        throw class_exists($class) ? new $class($text) : new \AssertionError($text);
    }

    /** A test that only asserts this is no test without assertions. */
    private static function countAssertion(): void
    {
        if (class_exists('PHPUnit\Framework\Assert')) {
            \PHPUnit\Framework\Assert::assertTrue(true);
        }
    }
}
