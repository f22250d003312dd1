<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Throwable;
use Tidegate\Ack;
use Tidegate\Http\Json;

/**
 * The end of a job, to be reported.
 *
 * @internal
 */
final class Report
{
    public const ACK = 'ack';
    public const FAIL = 'fail';
    public const RELEASE = 'release';

    /** Whether a request with the report is in flight. */
    public bool $isSent = false;

    private function __construct(
        public readonly string $kind,
        /** The item of the wire, as JSON. */
        public readonly string $item,
        public readonly HeldJob $held,
        public readonly float $createdAt,
        /** Of a release: the delay of the wire. */
        public readonly string $delay = '0ms',
    ) {
    }

    /** The job is done. A result that cannot be written makes it dead: its work would be done again. */
    public static function done(HeldJob $held, mixed $result, float $now): self
    {
        try {
            $item = Json::encode((new Ack($held->job->lease, $result))->toWire());
            return new self(self::ACK, $item, $held, $now);
        } catch (Throwable $error) {
            // Code of the user writes objects, and may throw anything.
            $text = 'the work is done, but the result cannot be written as JSON: ' . Failure::text($error);
            return self::failed($held, $text, ['dead' => true], $now);
        }
    }

    /** @param array<string, mixed> $rest further fields of the wire */
    public static function failed(HeldJob $held, string $error, array $rest, float $now): self
    {
        $item = Json::encode(['lease' => $held->job->lease, 'error' => $error, ...$rest]);
        return new self(self::FAIL, $item, $held, $now);
    }

    public static function released(HeldJob $held, string $delay, float $now): self
    {
        return new self(self::RELEASE, Json::encode($held->job->lease), $held, $now, $delay);
    }

    /** After that the report is useless. */
    public function expiresAt(): float
    {
        return $this->held->expiresAt;
    }

    /**
     * The request with reports of one kind, and of one delay.
     *
     * @param non-empty-list<self> $reports
     * @return array{string, string} path and body
     */
    public static function request(array $reports): array
    {
        $body = '{"leases":' . self::items($reports);
        $hasDelay = $reports[0]->kind === self::RELEASE && $reports[0]->delay !== '0ms';
        return ['/' . $reports[0]->kind, $body . ($hasDelay ? ',"delay":"' . $reports[0]->delay . '"}' : '}')];
    }

    /** @param list<self> $reports */
    public static function items(array $reports): string
    {
        return '[' . implode(',', array_map(static fn (self $report): string => $report->item, $reports)) . ']';
    }
}
