<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Answer;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;

/**
 * The jobs that a worker holds. Their leases are extended when a third of each has passed.
 *
 * @internal
 */
final class Leases
{
    private const REQUEST_LEASES = 1000;
    /** The shortest time that a request may take, in seconds. */
    private const ANSWER_LIMIT_MIN = 0.1;
    /** The longest time that a request may take while a handler blocks the loop, and waits for it, in seconds. */
    private const BLOCKING_LIMIT = 5.0;

    /** @var array<string, HeldJob> by their leases */
    private array $held = [];
    /** No lease is due or ends before this time. */
    private float $nextAt = INF;

    public function __construct(
        private readonly Sender $sender,
        private readonly Listeners $listeners,
    ) {
    }

    public function add(HeldJob $held): void
    {
        $this->held[$held->job->lease] = $held;
        $this->nextAt = min($this->nextAt, self::nextOf($held));
    }

    /** Removes a job. Returns whether it was still held: the caller reports its end then. */
    public function remove(HeldJob $held): bool
    {
        $isHeld = ($this->held[$held->job->lease] ?? null) === $held;
        if ($isHeld) {
            unset($this->held[$held->job->lease]);
        }
        return $isHeld;
    }

    /** When the next lease is due or ends, or a little earlier; infinity if there is none. */
    public function nextAt(): float
    {
        return $this->nextAt;
    }

    /** Extends the leases that are due, and aborts the jobs whose leases have ended. */
    public function extendDue(float $now): void
    {
        foreach ($this->groups($now, false) as $group) {
            $this->sender->loop->spawn(fn () => $this->extend($group));
        }
    }

    /** The same while a handler blocks the loop. */
    public function extendDueNow(float $now): void
    {
        // The loop does not read the answers to its own requests meanwhile.
        foreach ($this->groups($now, true) as $group) {
            try {
                $limit = min(self::limit($group), self::BLOCKING_LIMIT);
                $this->apply($group, $now, $this->sender->exchange(self::request($group), $limit));
            } catch (TidegateError $error) {
                $this->failed($group, $error);
            }
        }
    }

    /**
     * The leases that are due, for each request: it extends all its leases by one length.
     *
     * @return list<non-empty-list<HeldJob>>
     */
    private function groups(float $now, bool $isBlocked): array
    {
        if ($now < $this->nextAt) {
            return [];
        }
        $groups = [];
        $this->nextAt = INF;
        foreach ($this->held as $held) {
            if ($held->expiresAt <= $now) {
                $this->lose($held);
            } elseif (($isBlocked || !$held->isExtending) && $held->dueAt() <= $now) {
                $held->isExtending = true;
                $groups[(string) $held->length][] = $held;
            }
            $this->nextAt = min($this->nextAt, self::nextOf($held));
        }
        $chunks = array_map(static fn (array $group): array => array_chunk($group, self::REQUEST_LEASES), $groups);
        return array_merge(...array_values($chunks));
    }

    /** @param non-empty-list<HeldJob> $group */
    private function extend(array $group): void
    {
        $sent = $this->sender->loop->now();
        try {
            $this->apply($group, $sent, $this->sender->sendOnce(self::request($group), self::limit($group)));
        } catch (TidegateError $error) {
            $this->failed($group, $error);
        }
    }

    /** @param non-empty-list<HeldJob> $group */
    private static function request(array $group): Request
    {
        // The length that was granted: the policy of the queue may have another one by now.
        $ms = max(100, (int) round($group[0]->length * 1000));
        $leases = array_map(static fn (HeldJob $held): string => $held->job->lease, $group);
        return Request::json('POST', '/touch', ['leases' => $leases, 'lease' => $ms . 'ms'], true);
    }

    /**
     * An answer that is late must leave time for another request.
     *
     * @param non-empty-list<HeldJob> $group
     */
    private static function limit(array $group): float
    {
        return max($group[0]->length / 3, self::ANSWER_LIMIT_MIN);
    }

    /** @param non-empty-list<HeldJob> $group */
    private function apply(array $group, float $sent, Answer $answer): void
    {
        $results = $answer->results(count($group));
        foreach ($group as $index => $held) {
            $held->isExtending = false;
            $this->applyOutcome($held, $sent, $results[$index]);
            $this->nextAt = min($this->nextAt, self::nextOf($held));
        }
    }

    private static function nextOf(HeldJob $held): float
    {
        return min($held->expiresAt, $held->isExtending ? INF : $held->dueAt());
    }

    private function applyOutcome(HeldJob $held, float $sent, stdClass $result): void
    {
        if ($result->outcome !== 'extended') {
            // A job that has ended while the request was in flight is not held any more.
            $this->lose($held);
            return;
        }
        $held->extended($sent);
        if ($result->cancel_requested ?? false) {
            $held->job->abort(AbortReason::CancelRequested);
        }
    }

    /** @param non-empty-list<HeldJob> $group */
    private function failed(array $group, TidegateError $error): void
    {
        foreach ($group as $held) {
            $held->isExtending = false;
            // Not at once again, but early enough before the end of the lease.
            $held->extendedAt += $held->length / 12;
            $this->nextAt = min($this->nextAt, self::nextOf($held));
        }
        $this->listeners->tell(WorkerEvent::EXTEND_FAILED, error: $error);
    }

    private function lose(HeldJob $held): void
    {
        if ($this->remove($held)) {
            $held->job->abort(AbortReason::LeaseLost);
        }
    }
}
