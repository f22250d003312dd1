<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Closure;
use Tidegate\Applied;
use Tidegate\Connection;
use Tidegate\Errors\ConnectionError;
use Tidegate\Errors\TidegateError;
use Tidegate\Loop\Future;
use Tidegate\Loop\Loop;
use Tidegate\RepeatLimits;

/**
 * Sends requests to a namespace, and repeats them after errors.
 *
 * @internal
 */
final class Sender
{
    /**
     * @param float $timeLimit of each request in seconds, in addition to its wait
     * @param Closure(TidegateError, float): void|null $onRepeat is told the error and the delay before a repetition
     * @param Closure(): float|null $random of the delays
     */
    public function __construct(
        public readonly Loop $loop,
        private readonly Connection $connection,
        private readonly string $userAgent,
        public readonly float $timeLimit,
        private readonly RepeatLimits $limits,
        private readonly ?Closure $onRepeat = null,
        private readonly ?Closure $random = null,
    ) {
    }

    /**
     * Sends a request, and repeats it after errors as far as that is safe.
     *
     * @param float|null $deadline on the clock of the loop: no answer is waited for longer
     * @throws TidegateError
     */
    public function send(Request $request, ?float $deadline = null): Answer
    {
        $delays = new Delays($this->limits, $this->random);
        $firstLost = null;
        while (true) {
            $error = $this->attempt($request, $deadline);
            if ($error instanceof Answer) {
                return $error;
            }
            $delay = self::isRepeated($error, $request) ? $delays->nextAfter($error) : null;
            if ($delay === null || ($deadline !== null && $this->loop->now() + $delay >= $deadline)) {
                throw self::hidesLostAnswer($request, $error) ? $firstLost ?? $error : $error;
            }
            if ($this->onRepeat !== null) {
                ($this->onRepeat)($error, $delay);
            }
            if ($error->applied === Applied::Unknown) {
                $firstLost ??= $error;
            }
            $this->loop->sleep($delay);
        }
    }

    private function attempt(Request $request, ?float $deadline): Answer|TidegateError
    {
        try {
            $left = $deadline === null ? null : max(0.001, $deadline - $this->loop->now());
            return $this->sendOnce($request, $left);
        } catch (TidegateError $error) {
            return $error;
        }
    }

    /**
     * Sends a request once.
     *
     * @throws TidegateError if the answer is no success
     */
    public function sendOnce(Request $request, ?float $timeLimit = null): Answer
    {
        $answer = $this->loop->await($this->start($request, $timeLimit));
        return $answer->isSuccess() ? $answer : throw Problem::ofAnswer($answer);
    }

    /** Starts a request. The future has an answer of any status. */
    public function start(Request $request, ?float $timeLimit = null): Future
    {
        return $this->loop->transport->start($this->complete($request), $this->limitOf($request, $timeLimit));
    }

    /**
     * Sends a request once, without the loop: other requests stand still meanwhile.
     *
     * @throws TidegateError
     */
    public function exchange(Request $request, float $timeLimit): Answer
    {
        $limit = $this->limitOf($request, $timeLimit);
        $answer = $this->loop->transport->exchange($this->complete($request), $limit);
        return $answer->isSuccess() ? $answer : throw Problem::ofAnswer($answer);
    }

    private function complete(Request $request): Request
    {
        return $request->at($this->connection->base, $this->connection->headers($this->userAgent));
    }

    private function limitOf(Request $request, ?float $timeLimit): float
    {
        return min($timeLimit ?? INF, $this->timeLimit + $request->wait);
    }

    private static function isRepeated(TidegateError $error, Request $request): bool
    {
        // A full queue stays full for longer than a client should wait, and 500 is a defect.
        $isShort = $error instanceof ConnectionError || in_array($error->status, [408, 502, 503, 504], true);
        return $isShort && match ($error->applied) {
            Applied::No => true,
            Applied::Unknown => $request->isRepeatable,
            Applied::Yes => false,
        };
    }

    /**
     * Whether the error of the last repetition says that nothing was changed, which is not known of those before it. A
     * 404 does not: that something is not there is so however it came about.
     */
    private static function hidesLostAnswer(Request $request, TidegateError $last): bool
    {
        return $request->method !== 'GET' && $last->applied === Applied::No && $last->status !== 404;
    }
}
