<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use stdClass;
use Tidegate\Duration;
use Tidegate\Errors\AuthError;
use Tidegate\Errors\ConnectionError;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Delays;
use Tidegate\Http\Json;
use Tidegate\Http\Problem;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\Loop\Future;
use Tidegate\RepeatLimits;

/**
 * Requests jobs, one request at a time. The reports that wait travel with it; such a request does not wait for jobs.
 *
 * @internal
 */
final class Reserver
{
    private const REQUEST_JOBS = 256;
    private const FIRST_DELAY = 0.1;
    private const LONGEST_DELAY = 5.0;
    /** An empty answer that comes much earlier than the wait is followed by this pause, in seconds. */
    private const EMPTY_PAUSE = 0.05;
    /** How long a stop waits for the answer to a request that waits for jobs. If there is no job there is no answer. */
    private const LAST_ANSWER = 0.25;
    /** The same for a request that does not wait for jobs. */
    private const LAST_SETTLED = 2.0;

    private ?Future $inFlight = null;
    /** Whether the request in flight has reports. */
    private bool $isSettling = false;
    private bool $isStopped = false;
    private bool $isCut = false;
    private float $cutAt = INF;
    private Delays $delays;
    private float $notBefore = 0.0;
    /** The body of the request up to the number of jobs, without the closing brace. */
    private readonly string $body;

    /**
     * @param array<string, mixed> $fields of each request
     * @param float $wait of each request, in seconds
     * @param Closure(list<stdClass>, ?string): void $onJobs takes the jobs, and the time of the server
     * @param Closure(TidegateError): void $onRejected is told that the server refuses the worker
     */
    public function __construct(
        private readonly Sender $sender,
        private readonly Reports $reports,
        private readonly Listeners $listeners,
        array $fields,
        private readonly float $wait,
        private readonly Closure $onJobs,
        private readonly Closure $onRejected,
    ) {
        $this->body = substr(Json::encodePayload((object) $fields), 0, -1);
        $this->delays = Delays::endless(self::FIRST_DELAY, self::LONGEST_DELAY);
    }

    public function isWaiting(): bool
    {
        return $this->inFlight !== null;
    }

    /** When a request may be sent. */
    public function notBefore(): float
    {
        return $this->notBefore;
    }

    /** Requests up to so many jobs, if no request is in flight and no pause is due. Returns whether it did. */
    public function request(int $jobs): bool
    {
        $now = $this->sender->loop->now();
        if ($this->inFlight !== null || $now < $this->notBefore) {
            return false;
        }
        $jobs = min($jobs, self::REQUEST_JOBS);
        $reports = $this->reports->take();
        $this->isSettling = $reports !== [];
        $this->isCut = false;
        // The answer has the outcomes of the reports, so it must not wait for jobs.
        $wait = $this->isSettling ? 0.0 : $this->wait;
        $fields = ',"wait":"' . Duration::seconds($wait) . '","max_jobs":' . $jobs . self::settleField($reports);
        $request = Request::withJson('POST', '/reserve', $this->body . $fields . '}', true, $wait);
        $future = $this->sender->start($request);
        $this->inFlight = $future;
        $future->whenDone(function () use ($future, $reports, $now): void {
            $this->inFlight = null;
            $this->take($future, $reports, $now);
        });
        return true;
    }

    /**
     * Ends the request in flight soon. An answer that is on its way is taken: the server would not know that its jobs
     * did not arrive, and their leases would be left.
     */
    public function stop(float $now): void
    {
        $this->isStopped = true;
        $this->cutAt = $now + ($this->isSettling ? self::LAST_SETTLED : self::LAST_ANSWER);
    }

    /** Cuts the request in flight if it is time to, after a stop. */
    public function cutIfDue(float $now): void
    {
        $now < $this->cutAt ?: $this->cut();
    }

    /** Cuts the request in flight. The server gives its jobs back. */
    public function cut(): void
    {
        $this->isCut = true;
        $this->inFlight?->cancel(new ConnectionError('the worker stops'));
    }

    /** @param list<Report> $reports */
    private static function settleField(array $reports): string
    {
        if ($reports === []) {
            return '';
        }
        $isAck = static fn (Report $report): bool => $report->kind === Report::ACK;
        $acks = array_filter($reports, $isAck);
        $fails = array_filter($reports, static fn (Report $report): bool => !$isAck($report));
        return ',"settle":{"ack":' . Report::items($acks) . ',"fail":' . Report::items($fails) . '}';
    }

    /** @param list<Report> $reports */
    private function take(Future $future, array $reports, float $sent): void
    {
        try {
            $answer = $future->get();
            $answer->isSuccess() ?: throw Problem::ofAnswer($answer);
            $document = $answer->document();
            is_array($document->jobs ?? null) ?: throw Problem::unreadable($answer, 'it has no jobs');
        } catch (TidegateError $error) {
            $this->reports->giveBack($reports);
            $this->isCut || $this->isStopped ?: $this->failed($error);
            return;
        }
        $this->settled($reports, $document->settled ?? null);
        $this->delays = Delays::endless(self::FIRST_DELAY, self::LONGEST_DELAY);
        $now = $this->sender->loop->now();
        $isEarly = $now - $sent < max($this->wait / 2, self::EMPTY_PAUSE);
        if ($document->jobs === [] && $reports === [] && $isEarly) {
            $this->notBefore = $now + self::EMPTY_PAUSE;
        }
        ($this->onJobs)($document->jobs, $document->now ?? null);
    }

    /** @param list<Report> $reports */
    private function settled(array $reports, mixed $settled): void
    {
        foreach ([Report::ACK, Report::FAIL] as $kind) {
            $ofKind = array_values(array_filter($reports, static fn (Report $report): bool => $report->kind === $kind));
            $outcomes = (array) ($settled->{$kind} ?? []);
            if (count($outcomes) === count($ofKind)) {
                $this->reports->settled($ofKind, $outcomes);
                continue;
            }
            // It is not known what became of them. They are sent alone before the next request for jobs.
            $this->reports->giveBack($ofKind);
            $this->notBefore = $this->sender->loop->now() + self::EMPTY_PAUSE;
        }
    }

    /** The reports of the request are sent alone now: one of them may be to blame. */
    private function failed(TidegateError $error): void
    {
        if ($error instanceof AuthError) {
            ($this->onRejected)($error);
            return;
        }
        $delay = $this->delays->nextAfter($error) ?? RepeatLimits::RETRY_AFTER_MAX;
        $this->notBefore = $this->sender->loop->now() + $delay;
        $this->listeners->tell(WorkerEvent::RESERVE_FAILED, error: $error);
    }
}
