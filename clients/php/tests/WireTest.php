<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use DateInterval;
use DateTimeImmutable;
use PHPUnit\Framework\TestCase;
use stdClass;
use Tidegate\Applied;
use Tidegate\BigInteger;
use Tidegate\Duration;
use Tidegate\Errors;
use Tidegate\Http\Answer;
use Tidegate\Http\Json;
use Tidegate\Http\Path;
use Tidegate\Http\Problem;
use Tidegate\Http\RetryAfter;
use Tidegate\Instant;
use Tidegate\ReservedJob;

final class WireTest extends TestCase
{
    public function testKeysArePercentEncoded(): void
    {
        self::assertSame('/queues/q/jobs/key:a%20%C3%BC%3F%25%2B', Path::jobWithKey('q', 'a ü?%+'));
        self::assertSame('/queues/q/jobs/key:..', Path::jobWithKey('q', '..'));
        self::assertSame('/queues/q/jobs/-/result?key=a%2Fb', Path::jobWithKey('q', 'a/b', '/result'));
        $path = Path::with(Path::jobWithKey('q', 'a/b'), ['running' => 'ask']);
        self::assertSame('/queues/q/jobs/-?key=a%2Fb&running=ask', $path);
        self::assertSame('/queues/q/jobs/ID/payload', Path::job('q', 'ID', '/payload'));
        self::assertSame('/queues/a%2F..%2Fb', Path::queue('a/../b'));
    }

    public function testDurationsAreWholeMilliseconds(): void
    {
        self::assertSame('1500ms', (string) Duration::seconds(1.5));
        self::assertSame(1_800_000, Duration::minutes(30)->ms);
        self::assertSame(90_061_500, Duration::from(new DateInterval('P1DT1H1M1S'))->ms + 500);
        $difference = (new DateTimeImmutable('2026-01-31'))->diff(new DateTimeImmutable('2026-03-01'));
        self::assertSame(29 * 86_400_000, Duration::from($difference)->ms);
        $this->expectException(Errors\InvalidRequestError::class);
        Duration::milliseconds(-1);
    }

    public function testInstantsKeepTheirMilliseconds(): void
    {
        self::assertSame(1_500, Instant::toMs(Instant::fromMs(1_500)));
        self::assertSame(-1, Instant::toMs(Instant::fromMs(-1)));
        self::assertSame(17_592_186_044_416, Instant::toMs(Instant::parse('2527-06-23T06:20:44.416Z')));
    }

    public function testJsonArrivesAsItWasSent(): void
    {
        $text = '{"a":9007199254740993,"b":{},"c":[],"d":1.0,"e":"ü/","f":-9223372036854775808}';
        self::assertSame($text, Json::encode(Json::decodeAnswer($text)));
        // No property of an object may have such a name.
        $document = Json::decodeAnswer('{"jobs":[{"id":"1","payload":{"\u0000a":1}}]}');
        self::assertSame('1', $document->jobs[0]->id);
    }

    public function testIntegersBeyondAnIntKeepTheirDigits(): void
    {
        $text = '{"max":18446744073709551615,"list":[-9223372036854775809,9223372036854775807],'
            . '"text":"\\"18446744073709551615","float":0.5}';
        $value = Json::decode($text, false);
        self::assertEquals(new BigInteger('18446744073709551615'), $value->max);
        self::assertSame('-9223372036854775809', (string) $value->list[0]);
        self::assertSame(PHP_INT_MAX, $value->list[1]);
        self::assertSame($text, Json::encode($value));
        self::assertSame($text, Json::encode(Json::decode($text, true)));
        self::assertSame('"18446744073709551615"', json_encode($value->max));
        self::assertSame([1e20, 0.125], Json::decode('[1.00000000000000000000e20,0.1250000000000000000000]', true));
        $this->expectException(Errors\InvalidRequestError::class);
        new BigInteger('1.5');
    }

    public function testTheClassOfAnErrorFollowsItsCode(): void
    {
        $cases = [
            [401, 'key_invalid', Errors\AuthError::class],
            [403, 'scope_missing', Errors\AuthError::class],
            [404, 'job_not_found', Errors\NotFoundError::class],
            [409, 'key_taken', Errors\ConflictError::class],
            [412, 'version_mismatch', Errors\ConflictError::class],
            [422, 'idempotency_key_reused', Errors\ConflictError::class],
            [422, 'other', Errors\InvalidRequestError::class],
            [429, 'queue_full', Errors\RateLimitedError::class],
            [413, 'payload_too_large', Errors\InvalidRequestError::class],
            [501, 'unsupported_transfer_encoding', Errors\ServerError::class],
            [507, 'storage_full', Errors\ServerError::class],
        ];
        foreach ($cases as [$status, $code, $class]) {
            $error = Problem::ofAnswer(ScriptedTransport::problem($status, $code, 'no'));
            self::assertInstanceOf($class, $error);
            self::assertSame([$status, $code, "about $code"], [$error->status, $error->problemCode, $error->detail]);
        }
    }

    public function testAnAnswerThatIsNoProblemDocumentMayHaveBeenApplied(): void
    {
        $error = Problem::ofAnswer(new Answer(502, [], "<html>\xFF"));
        self::assertSame([502, null, Applied::Unknown], [$error->status, $error->problemCode, $error->applied]);
        $read = Problem::ofAnswer(ScriptedTransport::problem(404, 'job_not_found', null));
        self::assertSame(Applied::No, $read->applied);
        $proxy = Problem::ofAnswer(ScriptedTransport::problem(503, 'overloaded', null));
        self::assertSame(Applied::Unknown, $proxy->applied);
    }

    public function testRetryAfterIsInSecondsOrADate(): void
    {
        $of = static fn (string $text): ?int => RetryAfter::of(new Answer(503, ['retry-after' => $text], ''))?->ms;
        self::assertSame(2000, $of('2'));
        self::assertNull($of('soon?'));
        self::assertNull($of(''));
        self::assertSame(0, $of('Fri, 01 Jan 2010 00:00:00 GMT'));
        self::assertEqualsWithDelta(10_000, $of(gmdate('D, d M Y H:i:s \G\M\T', time() + 10)), 2000);
    }

    public function testPayloadsOfReservedJobs(): void
    {
        $document = ['id' => 'I', 'queue' => 'q', 'lease' => 'L', 'attempt' => 1, 'failures' => 0, 'losses' => 0];
        $job = static fn (array $rest): ReservedJob => new ReservedJob((object) [...$document, ...$rest]);
        $value = (object) ['a' => new stdClass()];
        $json = $job(['content_type' => 'application/json', 'payload' => $value]);
        self::assertSame(['a' => []], $json->payload());
        self::assertEquals($value, $json->payload(associative: false));
        self::assertSame('{"a":{}}', $json->bytes());
        $bytes = $job(['content_type' => 'image/png', 'payload_base64' => 'AP8=']);
        self::assertSame("\x00\xFF", $bytes->payload());
        self::assertNull($job(['content_type' => 'application/json', 'payload' => null])->payload());
    }
}
