<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use PHPUnit\Framework\TestCase;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Http\Answer;
use Tidegate\Http\Json;
use Tidegate\Http\Request;
use Tidegate\Worker\Job;
use Tidegate\Worker\RetryIn;
use Tidegate\Worker\Worker;
use Tidegate\Worker\WorkerEvent;
use Tidegate\Worker\WorkerOptions;

/** The requests by which a worker reports the ends of jobs. */
final class ReportsTest extends TestCase
{
    private ScriptedTransport $transport;
    private Client $client;

    private function worker(Answer ...$answers): Worker
    {
        $this->transport = new ScriptedTransport(new TestClock(), ...$answers);
        $options = new WorkerOptions(slots: 1, name: 'w', lease: Duration::seconds(9), handleSignals: false);
        $this->client = new Client('http://a', 'k', 'n', transport: $this->transport);
        return new Worker($this->client, $options);
    }

    /** @param array<string, mixed> $rest */
    private static function reserved(string $lease, array $rest = []): Answer
    {
        $job = [
            'id' => $lease, 'queue' => 'q', 'lease' => $lease, 'lease_until' => '2026-01-01T00:00:09.000Z', 'attempt' => 1,
            'failures' => 0, 'losses' => 0, 'content_type' => 'application/json', 'payload' => $lease,
        ];
        return ScriptedTransport::json(200, ['now' => '2026-01-01T00:00:00.000Z', 'jobs' => [$job], ...$rest]);
    }

    /** @return list<array{string, mixed}> */
    private function sent(): array
    {
        $shown = static fn (Request $request): array
            => [basename($request->target), Json::decode($request->body, true)];
        return array_map($shown, $this->transport->requests);
    }

    public function testReportsTravelWithTheNextRequestForJobs(): void
    {
        $outcome = ['outcome' => 'lost'];
        $worker = $this->worker(
            self::reserved('A'),
            self::reserved('B', ['settled' => ['ack' => [$outcome], 'fail' => []]]),
            self::reserved('C', ['settled' => ['ack' => [], 'fail' => [$outcome]]]),
            ScriptedTransport::json(200, ['results' => [['outcome' => 'done']]]),
        );
        $lost = [];
        $worker->listen(static function (WorkerEvent $event) use (&$lost): void {
            $event->name !== WorkerEvent::LEASE_LOST ?: $lost[] = $event->job?->id;
        });
        $worker->handle('q', static function (Job $job) use ($worker): mixed {
            $job->id !== 'C' ?: $worker->stop();
            return $job->id === 'B' ? new RetryIn('later', Duration::seconds(1)) : ['of' => $job->id];
        });
        $worker->run();
        $body = ['queues' => ['q'], 'order' => 'weighted', 'worker' => 'w', 'lease' => '9000ms'];
        $reserve = static fn (string $wait): array => [...$body, 'wait' => $wait, 'max_jobs' => 1];
        $ack = ['lease' => 'A', 'result' => ['of' => 'A']];
        $fail = ['lease' => 'B', 'error' => 'later', 'retry_in' => '1000ms'];
        self::assertSame([
            ['reserve', $reserve('20000ms')],
            ['reserve', [...$reserve('0ms'), 'settle' => ['ack' => [$ack], 'fail' => []]]],
            ['reserve', [...$reserve('0ms'), 'settle' => ['ack' => [], 'fail' => [$fail]]]],
            ['ack', ['leases' => [['lease' => 'C', 'result' => ['of' => 'C']]]]],
        ], $this->sent());
        self::assertSame(['A', 'B'], $lost);
    }

    public function testAJobWhoseResultIsNotAcceptedIsDead(): void
    {
        $refused = ScriptedTransport::problem(413, 'payload_too_large', 'no');
        $results = ScriptedTransport::json(200, ['results' => [['outcome' => 'dead']]]);
        $worker = $this->worker(self::reserved('A'), $refused, $refused, $results);
        $worker->listen(static fn (WorkerEvent $event) => $event->name !== WorkerEvent::REPORT_FAILED ?: $worker->stop());
        $worker->handle('q', static fn (): string => 'large');
        $worker->run();
        [, , [$ack], [$fail, $body]] = $this->sent();
        self::assertSame(['ack', 'fail'], [$ack, $fail]);
        self::assertTrue($body['leases'][0]['dead']);
        self::assertStringContainsString('payload_too_large', $body['leases'][0]['error']);
    }

    public function testAReportIsRepeatedUnlessItIsRefused(): void
    {
        $full = ScriptedTransport::problem(507, 'storage_full', 'no');
        $results = ScriptedTransport::json(200, ['results' => [['outcome' => 'done']]]);
        $worker = $this->worker(self::reserved('A'), $full, ScriptedTransport::json(200, ['results' => []]), $results);
        $events = [];
        $worker->listen(static function (WorkerEvent $event) use (&$events): void {
            $events[] = $event->name;
        });
        $worker->handle('q', static fn () => $worker->stop());
        $worker->run();
        self::assertSame(['reserve', 'ack', 'ack', 'ack'], array_column($this->sent(), 0));
        self::assertNotContains(WorkerEvent::REPORT_FAILED, $events);
    }

    public function testAStopTakesAnAnswerThatIsOnItsWay(): void
    {
        $results = ScriptedTransport::json(200, ['results' => [['outcome' => 'released']]]);
        $worker = $this->worker(self::reserved('A'), $results);
        $this->transport->ticks = 3;
        $worker->handle('q', static fn () => self::fail('the handler runs'));
        $worker->start();
        $this->client->sender()->loop->step(0.0);
        $worker->stop();
        $worker->join();
        self::assertSame(['reserve', 'release'], array_column($this->sent(), 0));
        self::assertSame(0, $this->transport->cut);
    }

    public function testAStopCutsARequestThatWaitsForJobs(): void
    {
        $worker = $this->worker(self::reserved('A'));
        $this->transport->ticks = PHP_INT_MAX;
        $worker->handle('q', static fn () => self::fail('the handler runs'));
        $worker->start();
        $this->client->sender()->loop->step(0.0);
        $worker->stop();
        $worker->join();
        self::assertSame(1, $this->transport->cut);
        self::assertCount(1, $this->transport->requests);
    }

    public function testReportsWithoutAnOutcomeAreSentAgain(): void
    {
        $worker = $this->worker(
            self::reserved('A'),
            ScriptedTransport::json(200, ['jobs' => []]),
            ScriptedTransport::json(200, ['results' => [['outcome' => 'gone']]]),
            ScriptedTransport::json(200, ['jobs' => []]),
        );
        $worker->handle('q', static fn (): string => 'done');
        $worker->start();
        for ($step = 0; $step < 1000 && count($this->transport->requests) < 4; $step++) {
            $this->client->sender()->loop->step(0.0);
            usleep(1000);
        }
        $worker->stop();
        $worker->join();
        self::assertSame(['reserve', 'reserve', 'ack', 'reserve'], array_column($this->sent(), 0));
    }
}
