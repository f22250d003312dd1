<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use Throwable;

/**
 * How a handler has ended, and the report of it.
 *
 * @internal
 */
final class EndedHandler
{
    private function __construct(
        public readonly string $event,
        public readonly Report $report,
        public readonly ?Throwable $error = null,
    ) {
    }

    /** @param Closure(): mixed $end returns the value of the handler, or throws its error */
    public static function of(HeldJob $held, Closure $end, float $now, ?float $maxRun): self
    {
        try {
            $value = $end();
        } catch (Throwable $error) {
            $value = $error;
        }
        $isSignal = $value instanceof RetryIn || $value instanceof Dead || $value instanceof Snooze;
        return match (true) {
            $value instanceof JobAborted,
            isset($error) && $held->job->isAborted() => self::aborted($held, $value, $now, $maxRun),
            isset($error), $isSignal => self::failed($held, $value, $now),
            default => new self(WorkerEvent::DONE, Report::done($held, $value, $now)),
        };
    }

    private static function failed(HeldJob $held, Throwable $error, float $now): self
    {
        if ($error instanceof Snooze) {
            return new self(WorkerEvent::RELEASED, Report::released($held, (string) $error->delay, $now));
        }
        $rest = match (true) {
            $error instanceof RetryIn => ['retry_in' => (string) $error->delay],
            $error instanceof Dead => ['dead' => true],
            default => [],
        };
        return new self(WorkerEvent::FAILED, Report::failed($held, Failure::text($error), $rest, $now), $error);
    }

    private static function aborted(HeldJob $held, Throwable $error, float $now, ?float $maxRun): self
    {
        $reason = $held->job->abortReason();
        if ($reason === AbortReason::Stopping) {
            return new self(WorkerEvent::ABORTED, Report::released($held, '0ms', $now), $error);
        }
        if (!$error instanceof JobAborted) {
            return self::failed($held, $error, $now);
        }
        $text = match ($reason) {
            AbortReason::MaxRun => "the handler did not end within $maxRun s",
            AbortReason::CancelRequested => 'cancelled as requested',
            default => $error->getMessage(),
        };
        return new self(WorkerEvent::ABORTED, Report::failed($held, $text, [], $now), $error);
    }
}
