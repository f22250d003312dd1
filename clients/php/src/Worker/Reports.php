<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Delays;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\RepeatLimits;

/**
 * Reports the ends of jobs, many in one request. Each request is repeated until the leases of its jobs have ended.
 *
 * @internal
 */
final class Reports
{
    private const BATCH_JOBS = 256;
    private const BATCH_BYTES = 1 << 20;
    private const FIRST_DELAY = 0.05;
    private const LONGEST_DELAY = 1.0;
    /** The statuses of a request that one of its reports may be to blame for. */
    private const BLAMES_ONE = [400, 413, 415, 422];
    /** How long one request may take while a handler blocks the loop, in seconds. */
    private const BLOCKING_LIMIT = 5.0;

    /** @var array<int, Report> that are not in a request, by their object ids */
    private array $waiting = [];
    /** @var array<int, Report> that are in requests */
    private array $sent = [];

    public function __construct(
        private readonly Sender $sender,
        private readonly Listeners $listeners,
    ) {
    }

    public function add(Report $report): void
    {
        $this->waiting[spl_object_id($report)] = $report;
    }

    /** How many reports the server has not answered. */
    public function count(): int
    {
        return count($this->waiting) + count($this->sent);
    }

    public function hasWaiting(): bool
    {
        return $this->waiting !== [];
    }

    /**
     * Takes acks and failures for a request for jobs. They come back by {@see Reports::giveBack()}, or are settled by
     * {@see Reports::settled()}.
     *
     * @return list<Report>
     */
    public function take(): array
    {
        $isTaken = static fn (Report $report): bool => $report->kind !== Report::RELEASE;
        $taken = self::chunks(array_values(array_filter($this->waiting, $isTaken)))[0] ?? [];
        $this->move($taken);
        return $taken;
    }

    /** @param list<Report> $reports */
    public function giveBack(array $reports): void
    {
        foreach ($reports as $report) {
            unset($this->sent[spl_object_id($report)]);
            $this->waiting[spl_object_id($report)] = $report;
        }
    }

    /**
     * Forgets reports that the server has answered.
     *
     * @param list<Report> $reports
     * @param list<stdClass> $outcomes
     */
    public function settled(array $reports, array $outcomes): void
    {
        foreach ($reports as $index => $report) {
            unset($this->sent[spl_object_id($report)], $this->waiting[spl_object_id($report)]);
            if (($outcomes[$index]->outcome ?? null) === 'lost') {
                $this->listeners->tell(WorkerEvent::LEASE_LOST, $report->held->job);
            }
        }
    }

    /** Sends all reports that wait. */
    public function flush(): void
    {
        foreach ($this->batches($this->waiting) as $batch) {
            $this->move($batch);
            $this->sender->loop->spawn(fn () => $this->send($batch));
        }
    }

    /** Sends the reports of before a time that the server has not answered, while a handler blocks the loop. */
    public function flushNow(float $before): void
    {
        $isOld = static fn (Report $report): bool => $report->createdAt <= $before;
        foreach ($this->batches(array_filter($this->waiting + $this->sent, $isOld)) as $batch) {
            try {
                [$path, $body] = Report::request($batch);
                $request = Request::withJson('POST', $path, $body, true);
                $answer = $this->sender->exchange($request, self::BLOCKING_LIMIT);
                $this->settled($batch, $answer->results(count($batch)));
            } catch (TidegateError) {
                // The loop sends them again.
            }
        }
    }

    /** @param non-empty-list<Report> $batch */
    private function send(array $batch): void
    {
        $error = $this->sendUntilExpired($batch);
        if ($error === null) {
            return;
        }
        $isBlamed = in_array($error->status, self::BLAMES_ONE, true);
        if ($isBlamed && count($batch) > 1) {
            // One report that is not accepted must not keep the others from being accepted.
            foreach ($batch as $report) {
                $this->send([$report]);
            }
            return;
        }
        $this->settled($batch, []);
        $this->listeners->tell(WorkerEvent::REPORT_FAILED, $batch[0]->held->job, $error);
        if ($isBlamed && $batch[0]->kind === Report::ACK) {
            $text = 'the work is done, but the result was not accepted: ' . Failure::text($error);
            $now = $this->sender->loop->now();
            $this->send([Report::failed($batch[0]->held, $text, ['dead' => true], $now)]);
        }
    }

    /**
     * Returns why the reports could not be sent, if so.
     *
     * @param non-empty-list<Report> $batch
     */
    private function sendUntilExpired(array $batch): ?TidegateError
    {
        [$path, $body] = Report::request($batch);
        $request = Request::withJson('POST', $path, $body, true);
        $until = max(array_map(static fn (Report $report): float => $report->expiresAt(), $batch));
        $delays = Delays::endless(self::FIRST_DELAY, self::LONGEST_DELAY);
        while (true) {
            try {
                $this->settled($batch, $this->sender->sendOnce($request)->results(count($batch)));
                return null;
            } catch (TidegateError $error) {
                $left = $until - $this->sender->loop->now();
                if (self::isRefusal($error) || $left <= 0) {
                    return $error;
                }
                $this->sender->loop->sleep(min($left, $delays->nextAfter($error) ?? RepeatLimits::RETRY_AFTER_MAX));
            }
        }
    }

    /** Whether a repetition would fail as well. */
    private static function isRefusal(TidegateError $error): bool
    {
        return $error->status >= 400 && $error->status < 500 && !$error->isTemporary();
    }

    /** @param list<Report> $reports */
    private function move(array $reports): void
    {
        foreach ($reports as $report) {
            unset($this->waiting[spl_object_id($report)]);
            $this->sent[spl_object_id($report)] = $report;
        }
    }

    /**
     * @param array<int, Report> $reports
     * @return list<non-empty-list<Report>>
     */
    private function batches(array $reports): array
    {
        $groups = [];
        foreach ($reports as $report) {
            $groups[$report->kind . $report->delay][] = $report;
        }
        return array_merge(...array_map(self::chunks(...), array_values($groups)));
    }

    /**
     * @param list<Report> $reports
     * @return list<non-empty-list<Report>>
     */
    private static function chunks(array $reports): array
    {
        $chunks = [];
        $bytes = INF;
        foreach ($reports as $report) {
            $bytes += strlen($report->item);
            if ($bytes > self::BATCH_BYTES || count($chunks[array_key_last($chunks)]) >= self::BATCH_JOBS) {
                $chunks[] = [];
                $bytes = strlen($report->item);
            }
            $chunks[array_key_last($chunks)][] = $report;
        }
        return $chunks;
    }
}
