<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use PHPUnit\Framework\TestCase;
use Throwable;
use Tidegate\Applied;
use Tidegate\Connection;
use Tidegate\Errors\ConnectionError;
use Tidegate\Errors\RateLimitedError;
use Tidegate\Errors\ServerError;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Answer;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\Loop\Loop;
use Tidegate\RepeatLimits;

final class SenderTest extends TestCase
{
    private ScriptedTransport $transport;

    private function sender(float $random, Answer|Throwable ...$answers): Sender
    {
        $clock = new TestClock();
        $this->transport = new ScriptedTransport($clock, ...$answers);
        $connection = Connection::of('http://a', 'tg_KEY', 'shop');
        $loop = new Loop($this->transport, $clock);
        return new Sender($loop, $connection, 'test/1', 10.0, new RepeatLimits(), null, fn (): float => $random);
    }

    private static function lost(): ConnectionError
    {
        return new ConnectionError('broken', Applied::Unknown);
    }

    /** @return list<float> the delays before repetitions, in whole ms */
    private function delays(): array
    {
        $delays = [];
        foreach (array_slice($this->transport->times, 1) as $index => $time) {
            $delays[] = round(($time - $this->transport->times[$index]) * 1000);
        }
        return $delays;
    }

    private function errorOf(Sender $sender, Request $request): TidegateError
    {
        try {
            $sender->send($request);
        } catch (TidegateError $error) {
            return $error;
        }
        self::fail('no error');
    }

    public function testDelaysAreDoubledUpToTheLongestOne(): void
    {
        $error = $this->errorOf($this->sender(0.0, ...array_fill(0, 8, self::lost())), Request::get('/queues'));
        self::assertSame('broken', $error->detail);
        self::assertEquals([100, 200, 400, 800, 1600, 3200, 5000], $this->delays());
    }

    public function testDelaysAreMadeLongerAtRandomUpToTwice(): void
    {
        $this->errorOf($this->sender(1.0, ...array_fill(0, 8, self::lost())), Request::get('/queues'));
        self::assertEquals([200, 400, 800, 1600, 3200, 6400, 10_000], $this->delays());
    }

    public function testRetryAfterIsWaitedForUpToThirtySeconds(): void
    {
        $busy = static fn (int $after): Answer
            => ScriptedTransport::problem(503, 'storage_unavailable', 'no', ['retry-after' => (string) $after]);
        $sender = $this->sender(0.0, $busy(30), ScriptedTransport::json(200, ['ok' => true]));
        self::assertTrue($sender->send(new Request('POST', '/x'))->document()->ok);
        self::assertEquals([30_000], $this->delays());

        $error = $this->errorOf($this->sender(0.0, $busy(31)), new Request('POST', '/x'));
        self::assertInstanceOf(ServerError::class, $error);
        self::assertSame(31_000, $error->retryAfter?->ms);
        self::assertCount(1, $this->transport->requests);
    }

    public function testOnlyWhatIsSafeIsRepeated(): void
    {
        $ok = ScriptedTransport::json(200, []);
        $cases = [
            // error, repeated if a repetition is safe, repeated else
            [ScriptedTransport::problem(503, 'storage_unavailable', 'no'), true, true],
            [ScriptedTransport::problem(503, 'storage_unavailable', 'unknown'), true, false],
            [ScriptedTransport::problem(504, 'time_limit_reached', 'unknown'), true, false],
            [ScriptedTransport::problem(504, 'not_durable', 'yes'), false, false],
            [ScriptedTransport::problem(408, 'request_timeout', 'no'), true, true],
            [ScriptedTransport::problem(429, 'queue_full', 'no'), false, false],
            [ScriptedTransport::problem(500, 'internal_error', 'unknown'), false, false],
            [ScriptedTransport::problem(409, 'key_taken', 'no'), false, false],
            [new Answer(502, [], '<html>'), true, false],
            [self::lost(), true, false],
            [new ConnectionError('refused', Applied::No), true, true],
        ];
        foreach ($cases as $index => [$error, $ifSafe, $else]) {
            foreach ([[true, $ifSafe], [false, $else]] as [$isSafe, $isRepeated]) {
                $sender = $this->sender(0.0, $error, $ok);
                try {
                    $sender->send(new Request('POST', '/x', isRepeatable: $isSafe));
                } catch (TidegateError) {
                }
                self::assertCount($isRepeated ? 2 : 1, $this->transport->requests, "case $index, safe: $isSafe");
            }
        }
    }

    public function testTheLastErrorDoesNotHideThatAnAnswerWasLost(): void
    {
        $taken = ScriptedTransport::problem(409, 'key_taken', 'no');
        $request = new Request('POST', '/x', isRepeatable: true);
        self::assertSame(Applied::Unknown, $this->errorOf($this->sender(0.0, self::lost(), $taken), $request)->applied);
        $gone = ScriptedTransport::problem(404, 'job_not_found', 'no');
        self::assertSame(404, $this->errorOf($this->sender(0.0, self::lost(), $gone), $request)->status);
    }

    public function testADeadlineEndsTheRepetitions(): void
    {
        $sender = $this->sender(0.0, ...array_fill(0, 8, self::lost()));
        try {
            $sender->send(Request::get('/x'), $sender->loop->now() + 1.0);
            self::fail('no error');
        } catch (ConnectionError) {
            self::assertEquals([100, 200, 400], $this->delays());
        }
    }

    public function testRequestsHaveTheKeyAndTheUserAgent(): void
    {
        $this->sender(0.0, ScriptedTransport::json(200, []))->send(Request::get('/queues'));
        $request = $this->transport->requests[0];
        self::assertSame('http://a/v1/shop/queues', $request->target);
        self::assertSame(['Authorization' => 'Bearer tg_KEY', 'User-Agent' => 'test/1'], $request->headers);
        self::assertStringNotContainsString('tg_KEY', print_r(Connection::of('http://a', 'tg_KEY', 'shop'), true));
    }

    public function testAFullQueueSaysWhenToTryAgain(): void
    {
        $full = ScriptedTransport::problem(429, 'queue_full', 'no', ['retry-after' => '2']);
        $error = $this->errorOf($this->sender(0.0, $full), new Request('POST', '/x'));
        self::assertInstanceOf(RateLimitedError::class, $error);
        self::assertSame(['queue_full', 2000], [$error->problemCode, $error->retryAfter?->ms]);
    }
}
