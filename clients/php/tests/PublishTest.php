<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use DateTimeImmutable;
use PHPUnit\Framework\TestCase;
use stdClass;
use Throwable;
use Tidegate\Bytes;
use Tidegate\Client;
use Tidegate\Duration;
use Tidegate\Errors\ConflictError;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Http\Answer;
use Tidegate\Http\Json;
use Tidegate\Http\Request;
use Tidegate\IfExists;
use Tidegate\JobChange;
use Tidegate\PublishedJob;
use Tidegate\PublishOptions;

final class PublishTest extends TestCase
{
    private ScriptedTransport $transport;

    private function client(Answer|Throwable ...$answers): Client
    {
        $this->transport = new ScriptedTransport(new TestClock(), ...$answers);
        return new Client('http://a', 'k', 'n', transport: $this->transport, traceParent: static fn () => null);
    }

    /** @return array<string, string> */
    private static function published(string $id): array
    {
        return ['id' => $id, 'queue' => 'q', 'outcome' => 'created', 'state' => 'ready', 'durability' => 'memory'];
    }

    private static function answer(string $id): Answer
    {
        return ScriptedTransport::json(201, self::published($id));
    }

    private function publishOne(mixed $payload, PublishOptions $options): Request
    {
        $this->client(self::answer('1'))->publish('q', $payload, $options);
        return $this->transport->requests[0];
    }

    public function testOptionsAreInTheQueryAndAttributesInHeaders(): void
    {
        $request = $this->publishOne(['a' => 1], new PublishOptions(
            delay: Duration::milliseconds(1.5),
            key: 'a/b &ü',
            ifExists: IfExists::Reject,
            retry: ['every' => '5s'],
            attributes: ['tenant' => 'blue'],
        ));
        $query = 'delay=2ms&key=a%2Fb%20%26%C3%BC&if_exists=reject&retry=%7B%22every%22%3A%225s%22%7D';
        self::assertSame("http://a/v1/n/queues/q/jobs?$query", $request->target);
        self::assertSame('blue', $request->headers['Job-Attr-tenant']);
        self::assertSame('application/json', $request->headers['Content-Type']);
        self::assertSame('{"a":1}', $request->body);
        // A repetition that finds the job of the first request must not be rejected.
        self::assertSame(32, strlen($request->headers['Idempotency-Key']));
    }

    public function testInstantsAreInMilliseconds(): void
    {
        $at = new DateTimeImmutable('2099-01-01T09:00:00.0001+01:00');
        $request = $this->publishOne(1, new PublishOptions(runAt: $at));
        self::assertStringEndsWith('?run_at=4070937600001', $request->target);
    }

    public function testOnlyWhatHasAKeyIsSafeToRepeat(): void
    {
        self::assertTrue($this->publishOne(1, new PublishOptions())->isRepeatable);
        self::assertTrue($this->publishOne(1, new PublishOptions(key: 'a', idempotent: false))->isRepeatable);
        self::assertTrue($this->publishOne(1, new PublishOptions(idempotencyKey: 'a'))->isRepeatable);
        self::assertFalse($this->publishOne(1, new PublishOptions(idempotent: false))->isRepeatable);
        self::assertArrayNotHasKey('Idempotency-Key', $this->publishOne(1, new PublishOptions(key: 'a'))->headers);
    }

    public function testARepetitionHasTheSameIdempotencyKey(): void
    {
        $busy = ScriptedTransport::problem(503, 'storage_unavailable', 'unknown');
        $this->client($busy, self::answer('1'))->publish('q', 1);
        [$first, $second] = $this->transport->requests;
        self::assertSame($first->headers['Idempotency-Key'], $second->headers['Idempotency-Key']);
    }

    public function testWhatIsInvalidIsNotSent(): void
    {
        $client = $this->client();
        $options = static fn (mixed ...$options): PublishOptions => new PublishOptions(...$options);
        foreach ([
            fn () => $client->publish('', 1),
            fn () => $client->publish('q', "\xFF"),
            fn () => $client->publish('q', 1, $options(attributes: ['A' => 'b'])),
            fn () => $client->publish('q', 1, $options(attributes: ['a' => ' b'])),
            fn () => $client->publish('q', 1, $options(attributes: ['a' => "b\nc"])),
            fn () => $client->publish('q', 1, $options(idempotencyKey: 'a b')),
            fn () => $client->publish('q', 1, $options(delay: new \DateInterval('P1M'))),
            fn () => new Client('http://user:secret@a', 'k', 'n'),
            fn () => new Client('http://a', "k\nx", 'n'),
            fn () => new Client('http://a', 'k', 'a b'),
        ] as $index => $function) {
            try {
                $function();
                self::fail("case $index has no error");
            } catch (InvalidRequestError $error) {
                self::assertNull($error->status);
                self::assertStringNotContainsString('secret', $error->getMessage());
            }
        }
        self::assertSame([], $this->transport->requests);
    }

    public function testPublishesThatMeetAreSentTogether(): void
    {
        $batch = ScriptedTransport::json(200, ['results' => [
            self::published('2'),
            ['problem' => ['status' => 409, 'code' => 'key_taken', 'detail' => 'taken', 'applied' => 'no']],
            self::published('4'),
        ]]);
        $client = $this->client(self::answer('1'), $batch);
        $errors = [];
        $publish = static function (mixed $payload, ?PublishOptions $options = null) use ($client, &$errors): mixed {
            try {
                return $client->publish('q', $payload, $options)->id;
            } catch (ConflictError $error) {
                return $errors[] = $error->problemCode;
            }
        };
        $ids = $client->concurrently([
            static fn () => $publish(1),
            static fn () => $publish(new stdClass(), new PublishOptions(delay: Duration::seconds(1), key: 'a')),
            static fn () => $publish(3, new PublishOptions(key: 'b', ifExists: IfExists::Reject)),
            static fn () => $publish(new Bytes("\x00\xFF", 'image/png'), new PublishOptions(attributes: ['a' => 'b'])),
        ]);
        self::assertSame(['1', '2', 'key_taken', '4'], $ids);
        self::assertCount(2, $this->transport->requests);
        $request = $this->transport->requests[1];
        self::assertSame('http://a/v1/n/queues/q/jobs/batch', $request->target);
        $jobs = Json::decode($request->body, true)['jobs'];
        self::assertSame(['payload' => [], 'delay' => '1000ms', 'key' => 'a'], $jobs[0]);
        self::assertStringContainsString('"payload":{}', $request->body);
        self::assertSame(['AP8=', 'image/png'], [$jobs[2]['payload_base64'], $jobs[2]['content_type']]);
        self::assertSame(['a' => 'b'], $jobs[2]['attributes']);
        self::assertNotEmpty($jobs[2]['idempotency_key']);
    }

    public function testABatchHasAHundredJobsAtMostAndOneMebibyte(): void
    {
        $sizes = [[150, 10, [1, 100, 49]], [4, 400_000, [1, 2, 1]]];
        foreach ($sizes as [$count, $bytes, $expected]) {
            $answers = array_map(static fn (int $size): Answer => $size === 1
                ? self::answer('x')
                : ScriptedTransport::json(200, ['results' => array_fill(0, $size, self::published('x'))]), $expected);
            $client = $this->client(...$answers);
            $publish = static fn (): PublishedJob => $client->publish('q', str_repeat('x', $bytes));
            $client->concurrently(array_fill(0, $count, $publish), 1000);
            $sent = array_map(static function (Request $request): int {
                $body = Json::decode($request->body, true);
                return is_array($body) ? count($body['jobs']) : 1;
            }, $this->transport->requests);
            self::assertSame($expected, $sent);
        }
    }

    public function testAJobThatIsNotAcceptedDoesNotFailTheOthersOfItsBatch(): void
    {
        $invalid = ScriptedTransport::problem(400, 'invalid_parameter', 'no');
        $client = $this->client(self::answer('1'), $invalid, self::answer('2'), $invalid);
        $publish = static function (int $payload) use ($client): ?string {
            try {
                return $client->publish('q', $payload)->id;
            } catch (InvalidRequestError) {
                return null;
            }
        };
        $ids = $client->concurrently(array_map(static fn (int $it) => static fn () => $publish($it), [1, 2, 3]));
        self::assertSame(['1', '2', null], $ids);
    }

    public function testAJobThatCannotBeWrittenDoesNotFailTheOthersOfItsBatch(): void
    {
        $client = $this->client(
            self::answer('1'),
            ScriptedTransport::problem(400, 'invalid_parameter', 'no'),
            self::answer('3'),
        );
        $publish = static function (string $key) use ($client): ?string {
            try {
                return $client->publish('q', 1, new PublishOptions(key: $key))->id;
            } catch (InvalidRequestError) {
                return null;
            }
        };
        $keys = ['a', "\xFF", 'c'];
        $ids = $client->concurrently(array_map(static fn (string $key) => static fn () => $publish($key), $keys));
        self::assertSame(['1', null, '3'], $ids);
    }

    public function testAPublishIsTracedByItsCaller(): void
    {
        $span = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
        $transport = new ScriptedTransport(new TestClock(), self::answer('1'));
        $client = new Client('http://a', 'k', 'n', transport: $transport, traceParent: static fn () => $span);
        $client->publish('q', 1);
        $headers = $transport->requests[0]->headers;
        self::assertSame([$span, $span], [$headers['traceparent'], $headers['Job-Attr-traceparent']]);
    }

    public function testRequestsAreSafeToRepeatAsTheServerSays(): void
    {
        $repeatable = static fn (Request $request): bool => $request->isRepeatable;
        $empty = ScriptedTransport::json(200, new stdClass());
        $client = $this->client(...array_fill(0, 7, $empty));
        $job = $client->queue('q')->job('ID');
        $job->change(new JobChange(priority: 1));
        $job->promote();
        $job->cancel();
        $client->queue('q')->delete();
        $client->keys()->revoke('ID');
        $client->keys()->createFrom(['scopes' => ['read'], 'secret' => 'tg_x']);
        $client->schedules()->set('s', ['queue' => 'q'], '1.9f3a61c2');
        self::assertSame(array_fill(0, 7, true), array_map($repeatable, $this->transport->requests));

        $counts = ScriptedTransport::json(200, ['deleted' => 1, 'respawned' => 1]);
        $client = $this->client($counts, $counts, $empty);
        $client->queue('q')->purge('dead');
        $client->queue('q')->respawn();
        $client->keys()->create(['read'], 'a test');
        self::assertSame(array_fill(0, 3, false), array_map($repeatable, $this->transport->requests));
    }

    public function testACallWaitsForTheResult(): void
    {
        $pending = ScriptedTransport::json(202, self::published('1'));
        $result = new Answer(200, ['tidegate-job-id' => '1', 'content-type' => 'application/json'], '{"a":{}}');
        $none = new Answer(204, ['tidegate-job-id' => '1'], '');
        $client = $this->client($pending, $result, $none);
        $called = $client->call('q', 1, Duration::seconds(30), new PublishOptions(key: 'k'));
        self::assertSame('{"a":{}}', $called->bytes);
        self::assertStringEndsWith('/queues/q/jobs/call?key=k&wait=20000ms', $this->transport->requests[0]->target);
        self::assertStringContainsString('/queues/q/jobs/1/result?wait=', $this->transport->requests[1]->target);
        self::assertNull($client->call('q', 1, Duration::seconds(1))->contentType);
        $client = $this->client($pending);
        self::assertSame('1', $client->call('q', 1, Duration::milliseconds(0))->id);
    }

    public function testPublishesOneAfterTheOtherAreNotABatch(): void
    {
        $client = $this->client(self::answer('1'), self::answer('2'));
        $client->publish('q', 1);
        $client->publish('q', 2);
        self::assertStringEndsWith('/jobs', $this->transport->requests[1]->target);
    }
}
