<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use Closure;
use JsonSerializable;
use PHPUnit\Framework\TestCase;
use RuntimeException;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\AuthError;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\IfRunning;
use Tidegate\PublishOptions;
use Tidegate\Testing\Fake;
use Tidegate\Worker\AbortReason;
use Tidegate\Worker\Job;
use Tidegate\Worker\JobAborted;
use Tidegate\Worker\Signals;
use Tidegate\Worker\Worker;
use Tidegate\Worker\WorkerEvent;
use Tidegate\Worker\WorkerOptions;

/** Workers against the fake, whose clock stands still. */
final class WorkerTest extends TestCase
{
    private Fake $fake;
    private Client $client;
    /** @var list<string> */
    private array $events = [];

    protected function setUp(): void
    {
        $this->fake = new Fake();
        $this->client = $this->fake->client();
    }

    private function worker(WorkerOptions $options, Closure $handler): Worker
    {
        $worker = new Worker($this->client, $options);
        $worker->listen(function (WorkerEvent $event): void {
            $this->events[] = $event->name;
        });
        return $worker->handle('q', $handler);
    }

    /** @param list<mixed> $payloads */
    private function publish(array $payloads): void
    {
        foreach ($payloads as $payload) {
            $this->client->publish('q', $payload, new PublishOptions(retain: Duration::hours(1)));
        }
    }

    private function jobsThatAre(string $state): int
    {
        return $this->client->queue('q')->counts()->jobs->{$state};
    }

    public function testHandlersRunOneAfterTheOtherUnlessTheySleep(): void
    {
        $this->publish([0, 0, 1, 1]);
        $order = [];
        $worker = $this->worker(new WorkerOptions(slots: 4), function (Job $job) use (&$order, &$worker): void {
            $order[] = "begin {$job->payload()}";
            $job->payload() === 0 ?: $job->sleep(Duration::milliseconds(20));
            $order[] = "end {$job->payload()}";
            count($order) === 8 && $worker->stop();
        });
        $worker->run();
        $expected = ['begin 0', 'end 0', 'begin 0', 'end 0', 'begin 1', 'begin 1', 'end 1', 'end 1'];
        self::assertSame($expected, $order);
        self::assertSame(4, $this->jobsThatAre('done'));
    }

    public function testMiddlewareWrapsHandlers(): void
    {
        $this->publish([1]);
        $log = [];
        $worker = $this->worker(new WorkerOptions(), function () use (&$log, &$worker): string {
            $log[] = 'handler';
            $worker->stop();
            return 'result';
        });
        foreach (['outer', 'inner'] as $name) {
            $worker->wrap(function (Job $job, Closure $next) use (&$log, $name): mixed {
                $log[] = $name;
                return $next($job) . " $name";
            });
        }
        $worker->run();
        self::assertSame(['outer', 'inner', 'handler'], $log);
        $done = iterator_to_array($this->client->queue('q')->jobs());
        $result = $this->client->queue('q')->job($done[0]->id)->result();
        self::assertSame('result inner outer', $result?->json());
        self::assertSame(['started', 'done', 'stopping', 'stopped'], $this->events);
    }

    public function testAStopAbortsHandlersAfterTheGracePeriodAndGivesJobsBack(): void
    {
        $this->publish([1, 2, 3]);
        $reasons = [];
        $options = new WorkerOptions(slots: 2, prefetch: 1);
        $worker = $this->worker($options, function (Job $job) use (&$reasons, &$worker): void {
            $job->payload() === 2 && $worker->stop(Duration::milliseconds(20));
            try {
                $job->sleep(Duration::hours(1));
            } catch (JobAborted $aborted) {
                $reasons[] = $aborted->reason;
                throw $aborted;
            }
        });
        $worker->run();
        self::assertSame([AbortReason::Stopping, AbortReason::Stopping], $reasons);
        self::assertSame(3, $this->jobsThatAre('ready'));
        $jobs = iterator_to_array($this->client->queue('q')->jobs());
        self::assertSame([0, 0, 0], array_map(static fn ($job) => $job->failures, $jobs));
    }

    public function testAHandlerThatRunsTooLongFails(): void
    {
        $this->publish([1]);
        $options = new WorkerOptions(maxRun: Duration::milliseconds(30));
        $worker = $this->worker($options, static fn (Job $job) => $job->sleep(Duration::hours(1)));
        $worker->listen(static fn (WorkerEvent $event) => $event->name === 'aborted' && $worker->stop());
        $worker->run();
        $jobs = iterator_to_array($this->client->queue('q')->jobs());
        self::assertSame('the handler did not end within 0.03 s', $jobs[0]->history[0]->error);
    }

    public function testAResultThatIsNoJsonMakesTheJobDead(): void
    {
        $this->publish(['text', 'object']);
        $worker = $this->worker(new WorkerOptions(), function (Job $job) use (&$worker): mixed {
            if ($job->payload() === 'text') {
                return "\xFF";
            }
            $worker->stop();
            return new class () implements JsonSerializable {
                public function jsonSerialize(): never
                {
                    throw new RuntimeException('no');
                }
            };
        });
        $worker->run();
        self::assertSame(2, $this->jobsThatAre('dead'));
    }

    public function testTheEndOfAHandlerIsReported(): void
    {
        $this->publish([1]);
        $worker = $this->worker(new WorkerOptions(), function () use (&$worker): never {
            $worker->stop();
            throw new RuntimeException("bad \xFF");
        });
        $worker->run();
        $jobs = iterator_to_array($this->client->queue('q')->jobs());
        self::assertSame('bad ?', $jobs[0]->history[0]->error);
    }

    public function testAWorkerThatIsRefusedEnds(): void
    {
        $refused = ScriptedTransport::problem(401, 'key_invalid', 'no');
        $transport = new ScriptedTransport(new TestClock(), $refused);
        $worker = new Worker(new Client('http://a', 'k', 'n', transport: $transport));
        $worker->handle('q', static fn () => null);
        try {
            $worker->run();
            self::fail('no error');
        } catch (AuthError $error) {
            self::assertSame(401, $error->status);
        }
        self::assertFalse($worker->isRunning());
    }

    public function testAWorkerNeedsAHandlerForEachQueueThatItNames(): void
    {
        foreach ([
            fn () => (new Worker($this->client))->run(),
            fn () => $this->worker(new WorkerOptions(weights: ['x' => 2]), static fn () => null)->run(),
            fn () => $this->worker(new WorkerOptions(), static fn () => null)->handle('q', static fn () => null),
            static fn () => new WorkerOptions(slots: 0),
        ] as $function) {
            try {
                $function();
                self::fail('no error');
            } catch (InvalidRequestError $error) {
                self::assertNull($error->status);
            }
        }
    }

    public function testAJobThatIsCancelledWhileItWaitsIsReported(): void
    {
        $this->publish([1, 2]);
        $options = new WorkerOptions(slots: 1, prefetch: 1, lease: Duration::milliseconds(300));
        $worker = $this->worker($options, function (Job $job): void {
            self::assertSame(1, $job->payload());
            foreach ($this->client->queue('q')->jobs() as $shown) {
                $shown->id === $job->id ?: $this->client->queue('q')->job($shown->id)->cancel(IfRunning::Ask);
            }
            $job->sleep(Duration::milliseconds(200));
        });
        $worker->listen(static fn (WorkerEvent $event) => $event->name === 'aborted' && $worker->stop());
        $worker->run();
        self::assertSame([0, 1], [$this->jobsThatAre('leased'), $this->jobsThatAre('done')]);
        self::assertCount(1, iterator_to_array($this->client->queue('q')->jobs()));
    }

    public function testAListenerThatThrowsLosesNothing(): void
    {
        $this->publish([1]);
        $worker = $this->worker(new WorkerOptions(), static function () use (&$worker): void {
            $worker->stop();
        });
        $worker->listen(static fn () => throw new RuntimeException('no disk'));
        $log = ini_set('error_log', '/dev/null');
        try {
            $worker->run();
        } finally {
            ini_set('error_log', (string) $log);
        }
        self::assertSame(1, $this->jobsThatAre('done'));
    }

    public function testAHandlerThatBlocksHasNoRequestForJobsInFlight(): void
    {
        if (!Signals::isAvailable()) {
            self::markTestSkipped('the extension pcntl is not there');
        }
        $job = [
            'id' => 'A', 'queue' => 'q', 'lease' => 'A', 'lease_until' => '2026-01-01T00:01:00.000Z', 'attempt' => 1,
            'failures' => 0, 'losses' => 0, 'content_type' => 'application/json', 'payload' => 1,
        ];
        $reserved = ScriptedTransport::json(200, ['now' => '2026-01-01T00:00:00.000Z', 'jobs' => [$job]]);
        $done = ScriptedTransport::json(200, ['results' => [['outcome' => 'done']]]);
        $transport = new ScriptedTransport(new TestClock(), $reserved, $reserved, $done);
        $worker = new Worker(new Client('http://a', 'k', 'n', transport: $transport), new WorkerOptions(slots: 2));
        $cut = null;
        $worker->handle('q', static function (Job $job) use ($worker, $transport, &$cut): void {
            $transport->ticks = PHP_INT_MAX;
            $job->sleep(Duration::milliseconds(20));
            // The request for the second slot is in flight now.
            $until = hrtime(true) + 1_300_000_000;
            while (hrtime(true) < $until) {
                usleep(1000);
            }
            $cut = $transport->cut;
            $transport->ticks = 1;
            $worker->stop();
        });
        $worker->run();
        self::assertSame(1, $cut);
        self::assertSame('ack', basename($transport->requests[2]->target));
    }
}
