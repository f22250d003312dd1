<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use DateTimeImmutable;
use PHPUnit\Framework\AssertionFailedError;
use PHPUnit\Framework\TestCase;
use RuntimeException;
use Tidegate\Bytes;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\ConflictError;
use Tidegate\Errors\NotFoundError;
use Tidegate\IfExists;
use Tidegate\IfRunning;
use Tidegate\JobChange;
use Tidegate\PublishOptions;
use Tidegate\Testing\Fake;
use Tidegate\Testing\FakeClock;
use Tidegate\Testing\PublishedCall;
use Tidegate\Worker\Dead;
use Tidegate\Worker\Job;
use Tidegate\Worker\RetryIn;
use Tidegate\Worker\Snooze;

final class FakeTest extends TestCase
{
    private Fake $fake;
    private Client $client;
    /** @var list<mixed> the payloads that a handler has got */
    private array $seen = [];

    protected function setUp(): void
    {
        $this->fake = new Fake(new FakeClock(new DateTimeImmutable('2026-11-30T12:00:00Z')));
        $this->client = $this->fake->client();
    }

    private function runQueue(callable $handler): int
    {
        return $this->fake->runDue(['q' => function (Job $job) use ($handler): mixed {
            $this->seen[] = $job->payload();
            return $handler($job);
        }]);
    }

    private function state(string $key): string
    {
        return $this->client->queue('q')->jobWithKey($key)->show()->state;
    }

    public function testJobsRunWhenTheyAreDue(): void
    {
        $this->client->publish('q', ['n' => 1], new PublishOptions(delay: Duration::minutes(30), key: 'a/1'));
        self::assertSame(0, $this->runQueue(static fn () => null));
        $this->fake->clock->advance(Duration::minutes(29));
        self::assertSame(0, $this->runQueue(static fn () => null));
        $this->fake->clock->advance(Duration::minutes(1));
        self::assertSame(1, $this->runQueue(static fn () => null));
        self::assertSame([['n' => 1]], $this->seen);
        $this->expectException(NotFoundError::class);
        $this->state('a/1');
    }

    public function testACancelledJobDoesNotRun(): void
    {
        $this->client->publish('q', 1, new PublishOptions(delay: Duration::minutes(30), key: 'a'));
        self::assertSame('delayed', $this->client->queue('q')->jobWithKey('a')->cancel()->was);
        $this->fake->clock->advance(Duration::hours(1));
        self::assertSame(0, $this->runQueue(static fn () => null));
    }

    public function testAHandlerDecidesWhatBecomesOfItsJob(): void
    {
        $options = static fn (string $key) => new PublishOptions(key: $key, retain: Duration::hours(1));
        $this->client->publish('q', 'fail', $options('fail'));
        $this->client->publish('q', 'retry', $options('retry'));
        $this->client->publish('q', 'dead', $options('dead'));
        $this->client->publish('q', 'snooze', $options('snooze'));
        $this->client->publish('q', 'result', $options('result'));
        $handler = static fn (Job $job): mixed => match ($job->payload()) {
            'fail' => throw new RuntimeException('failed'),
            'retry' => new RetryIn('later', Duration::seconds(30)),
            'dead' => throw new Dead('hopeless'),
            'snooze' => new Snooze(Duration::seconds(10)),
            'result' => ['total' => 1],
        };
        self::assertSame(5, $this->runQueue($handler));
        $queue = $this->client->queue('q');
        self::assertSame('failed', $queue->jobWithKey('fail')->show()->history[0]->error);
        self::assertSame('2026-11-30T12:00:30.000Z', $queue->jobWithKey('retry')->show()->run_at);
        self::assertSame(['dead', 'permanent'], [$this->state('dead'), $queue->jobWithKey('dead')->show()->reason]);
        self::assertSame(0, $queue->jobWithKey('snooze')->show()->failures);
        self::assertSame(['total' => 1], $queue->jobWithKey('result')->result()?->json());
        $counts = $queue->counts()->jobs;
        self::assertSame([3, 1, 1], [$counts->delayed, $counts->dead, $counts->done]);
        $this->fake->clock->advance(Duration::seconds(1));
        self::assertSame(1, $this->runQueue(static fn () => null));
    }

    public function testKeysAreUnique(): void
    {
        $publish = fn (mixed $payload, ?IfExists $rule = null) => $this->client
            ->publish('q', $payload, new PublishOptions(key: 'k', ifExists: $rule, delay: Duration::seconds(5)));
        self::assertSame('created', $publish(1)->outcome);
        self::assertSame('exists', $publish(2)->outcome);
        self::assertSame('replaced', $publish(3, IfExists::Replace)->outcome);
        $this->fake->clock->advance(Duration::seconds(5));
        $rerun = fn (Job $job): mixed => $job->attempt > 1 ?: $publish(4, IfExists::Replace)->outcome;
        self::assertSame(1, $this->runQueue($rerun));
        $this->fake->clock->advance(Duration::seconds(5));
        self::assertSame(1, $this->runQueue($rerun));
        self::assertSame([3, 4], $this->seen);
        $this->client->publish('q', 5, new PublishOptions(key: 'k'));
        $this->expectException(ConflictError::class);
        $publish(5, IfExists::Reject);
    }

    public function testALeaseThatEndsIsALoss(): void
    {
        $this->client->publish('q', 1);
        [$lost] = $this->client->reserve(['q'], lease: Duration::seconds(10));
        self::assertSame('extended', $this->client->touch([$lost->lease], Duration::seconds(20))[0]->outcome);
        $this->fake->clock->advance(Duration::seconds(20));
        [$job] = $this->client->reserve(['q']);
        self::assertSame([2, 1], [$job->attempt, $job->losses]);
        self::assertSame('lost', $this->client->ack([$lost->lease])[0]->outcome);
        self::assertSame('done', $this->client->ack([$job->lease])[0]->outcome);
        self::assertSame('gone', $this->client->ack([$job->lease])[0]->outcome);
    }

    public function testARunningJobIsAskedToStop(): void
    {
        $this->client->publish('q', 1, new PublishOptions(key: 'k'));
        $cancel = fn () => $this->client->queue('q')->jobWithKey('k')->cancel(IfRunning::Ask)->outcome;
        $this->runQueue(function (Job $job) use ($cancel): void {
            self::assertSame('cancel_requested', $cancel());
            $job->sleep(Duration::seconds(1));
            self::fail('it goes on');
        });
        self::assertSame([0, 0, 0, 0, 0], array_values((array) $this->client->queue('q')->counts()->jobs));
    }

    public function testChangesOfAJobThatWaits(): void
    {
        $options = new PublishOptions(delay: Duration::days(3), key: 'k');
        $this->client->publish('q', new Bytes('', 'text/plain'), $options);
        $job = $this->client->queue('q')->jobWithKey('k');
        self::assertSame('delayed', $job->change(new JobChange(delay: Duration::days(1)))->state);
        self::assertSame('2026-12-01T12:00:00.000Z', $job->show()->run_at);
        $job->promote();
        self::assertSame(1, $this->runQueue(static fn () => null));
        self::assertSame([''], $this->seen);
    }

    public function testPublishesAreAsserted(): void
    {
        $this->client->publish('mails', ['to' => 'ann'], new PublishOptions(key: 'm', attributes: ['a' => 'b']));
        $this->fake->assertPublished('mails', static fn (PublishedCall $call): bool
            => $call->payload() === ['to' => 'ann'] && $call->key === 'm' && $call->attributes === ['a' => 'b']);
        $this->fake->assertNotPublished('other');
        $this->expectException(AssertionFailedError::class);
        $this->fake->assertPublished('mails', static fn (PublishedCall $call): bool => $call->key === 'x');
    }

    public function testAnIdempotencyKeyIsRemembered(): void
    {
        $options = new PublishOptions(idempotencyKey: 'i');
        $first = $this->client->publish('q', 1, $options);
        self::assertSame($first->id, $this->client->publish('q', 1, $options)->id);
    }

    public function testWhatTheFakeDoesNotKnowIsAnError(): void
    {
        $this->expectException(NotFoundError::class);
        $this->client->queue('q')->policy();
    }
}
