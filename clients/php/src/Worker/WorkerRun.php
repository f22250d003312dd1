<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;
use DateTimeImmutable;
use Fiber;
use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Sender;
use Tidegate\Instant;
use Tidegate\Loop\Future;
use Tidegate\Loop\Loop;

/**
 * A run of a worker, from its start to its end. It is a background function of the loop.
 *
 * @internal
 */
final class WorkerRun
{
    /** How long reports are sent at the end, in seconds. */
    private const FLUSH_LIMIT = 10.0;
    /** How long a stop waits for handlers that were aborted, in seconds. */
    private const ABORT_LIMIT = 1.0;
    /** No jobs are requested while so many reports wait for an answer. */
    private const REPORTS_MAX = 512;
    private const CHECKPOINT_SECONDS = 0.05;
    /** Reports that have waited so long are sent while a handler blocks. */
    private const BLOCKED_SECONDS = 0.5;
    /** A handler that has had the thread for so long blocks: a request for jobs is cut then, in seconds. */
    private const BLOCKED_RESERVE_SECONDS = 0.9;

    private readonly Loop $loop;
    private readonly Leases $leases;
    private readonly Reports $reports;
    private readonly Runner $runner;
    private readonly Reserver $reserver;
    private readonly Signals $signals;
    /** Is done when the worker has ended; has the error by which it has ended by itself. */
    public readonly Future $ended;
    private int $background = 0;
    private bool $isStopRequested = false;
    private ?float $graceUntil = null;
    private float $grace;
    private ?float $flushUntil = null;
    private ?TidegateError $error = null;
    private float $checkedAt = 0.0;
    /** When the loop has carried the worker on last. */
    private float $steppedAt = 0.0;

    /** @param array<string, Closure(Job): mixed> $handlers by queue, with their middleware */
    public function __construct(
        private readonly Sender $sender,
        private readonly WorkerOptions $options,
        array $handlers,
        private readonly Listeners $listeners,
    ) {
        $this->loop = $sender->loop;
        $this->grace = $options->grace;
        $this->ended = new Future();
        $this->leases = new Leases($sender, $listeners);
        $this->reports = new Reports($sender, $listeners);
        $this->runner = new Runner(
            $this->loop,
            $handlers,
            $options->slots,
            $this->started(...),
            $this->setAlarm(...),
            $this->handlerEnded(...),
        );
        $fields = ReserveFields::of($options, array_map(strval(...), array_keys($handlers)));
        $this->reserver = new Reserver(
            $sender,
            $this->reports,
            $listeners,
            $fields,
            $options->wait,
            $this->hold(...),
            $this->rejected(...),
        );
        $this->signals = new Signals(
            $options->handleSignals ? $this->stopSignal(...) : null,
            $options->extendByAlarm ? $this->alarm(...) : null,
        );
    }

    public function start(): void
    {
        $this->signals->install();
        $this->background = $this->loop->addBackground($this->step(...));
    }

    /** Requests the stop. May be called from anywhere, also from a handler. */
    public function stop(?float $grace = null): void
    {
        $this->grace = $grace ?? $this->grace;
        if ($this->graceUntil !== null && $grace !== null) {
            $this->graceUntil = min($this->graceUntil, $this->loop->now() + $grace);
        }
        $this->isStopRequested = true;
    }

    /** Carries the worker on. Returns how many seconds later it wants to be called. */
    private function step(float $now): ?float
    {
        if ($this->ended->isDone()) {
            return null;
        }
        $this->steppedAt = $now;
        $this->leases->extendDue($now);
        $this->abortTooLong($now);
        if ($this->isStopRequested && $this->graceUntil === null) {
            $this->beginStop($now);
        }
        if ($this->runner->current() !== null) {
            // A handler waits for the loop: no other handler may run.
            $this->graceUntil === null ?: $this->abortAfterGrace($now);
            $this->reserver->cutIfDue($now);
            $this->reports->flush();
            return $this->leases->nextAt() - $now;
        }
        $wakeAt = $this->runner->advance();
        if ($this->graceUntil !== null) {
            return $this->stepStop($this->loop->now());
        }
        if ($this->isStopRequested) {
            // A handler has requested the stop.
            return 0.0;
        }
        $this->requestJobs();
        if ($this->runner->canBegin()) {
            // A transport that blocks has got jobs at once.
            return 0.0;
        }
        $next = min($wakeAt, $this->leases->nextAt(), $this->nextMaxRun(), $this->nextRequest());
        return max(0.0, $next - $this->loop->now());
    }

    /** Requests jobs for the free slots, or else sends the reports that wait. */
    private function requestJobs(): void
    {
        $jobs = $this->requestedJobs();
        $jobs > 0 && $this->reserver->request($jobs);
        $this->reports->flush();
    }

    /** For how many jobs there is room; 0 if it is not worth a request yet. */
    private function requestedJobs(): int
    {
        $room = $this->options->slots + $this->options->prefetch;
        $free = $room - $this->runner->count();
        // While jobs wait here, a request for each slot that becomes free would be too many.
        $isWorth = $free >= intdiv($room + 3, 4) || !$this->runner->hasWaiting();
        return $isWorth && $this->reports->count() < self::REPORTS_MAX ? $free : 0;
    }

    private function nextRequest(): float
    {
        $isDue = !$this->reserver->isWaiting() && $this->requestedJobs() > 0;
        return $isDue ? max($this->reserver->notBefore(), $this->loop->now() + 0.001) : INF;
    }

    /** @param list<stdClass> $documents */
    private function hold(array $documents, ?string $serverTime): void
    {
        $now = $this->loop->now();
        $serverMs = Instant::toMs(Instant::parse($serverTime) ?? new DateTimeImmutable());
        foreach ($documents as $document) {
            $job = new Job($document, $this->runner->pause(...), $this->checkpoint(...));
            $length = (Instant::toMs($job->leaseUntil()) - $serverMs) / 1000;
            $held = HeldJob::arrived($job, max(0.1, $length), $this->steppedAt, $now);
            $this->leases->add($held);
            $this->runner->add($held);
        }
        if ($this->isStopRequested) {
            $this->giveBackWaiting();
        }
    }

    private function rejected(TidegateError $error): void
    {
        $this->error = $error;
        $this->isStopRequested = true;
    }

    private function started(HeldJob $held): void
    {
        if ($this->options->maxRun !== null) {
            $held->extendUntil = $held->startedAt + $this->options->maxRun;
        }
        $this->listeners->tell(WorkerEvent::STARTED, $held->job);
    }

    /** @param Closure(): mixed $end returns the value of the handler, or throws its error */
    private function handlerEnded(HeldJob $held, Closure $end): void
    {
        $now = $this->loop->now();
        $seconds = $now - $held->startedAt;
        $ended = EndedHandler::of($held, $end, $now, $this->options->maxRun);
        $this->listeners->tell($ended->event, $held->job, $ended->error, $seconds);
        // A job that is not held any more was given back, or is lost.
        if ($this->leases->remove($held)) {
            $this->reports->add($ended->report);
        }
    }

    private function nextMaxRun(): float
    {
        $next = INF;
        foreach ($this->options->maxRun === null ? [] : $this->runner->running() as $held) {
            $next = min($next, $held->extendUntil);
        }
        return $next;
    }

    private function abortTooLong(float $now): void
    {
        foreach ($this->options->maxRun === null ? [] : $this->runner->running() as $held) {
            if ($held->extendUntil <= $now) {
                $held->job->abort(AbortReason::MaxRun);
            }
        }
    }

    private function beginStop(float $now): void
    {
        $this->graceUntil = $now + $this->grace;
        $this->listeners->tell(WorkerEvent::STOPPING);
        $this->reserver->stop($now);
        $this->giveBackWaiting();
    }

    private function giveBackWaiting(): void
    {
        foreach ($this->runner->takeWaiting() as $held) {
            $this->giveBack($held);
        }
    }

    private function giveBack(HeldJob $held): void
    {
        if ($this->leases->remove($held)) {
            $this->reports->add(Report::released($held, '0ms', $this->loop->now()));
            $this->listeners->tell(WorkerEvent::RELEASED, $held->job);
        }
    }

    private function stepStop(float $now): float
    {
        $running = $this->runner->running();
        if ($now >= $this->graceUntil) {
            foreach ($running as $held) {
                $held->job->abort(AbortReason::Stopping);
                if ($now >= $this->graceUntil + self::ABORT_LIMIT) {
                    $this->giveBack($held);
                }
            }
            $now < $this->graceUntil + self::ABORT_LIMIT ?: $this->runner->forgetAll();
        }
        $this->reserver->cutIfDue($now);
        $this->reports->flush();
        if ($this->runner->count() === 0 && !$this->reserver->isWaiting()) {
            $this->flushUntil ??= $now + self::FLUSH_LIMIT;
            if ($this->reports->count() === 0 || $now >= $this->flushUntil) {
                $this->end();
            }
        }
        return 0.01;
    }

    private function end(): void
    {
        $this->loop->forget($this->background);
        $this->signals->restore();
        $this->listeners->tell(WorkerEvent::STOPPED, error: $this->error);
        $this->error === null ? $this->ended->complete(null) : $this->ended->fail($this->error);
    }

    /** A handler looks whether it should stop. */
    private function checkpoint(): void
    {
        $now = $this->loop->now();
        if ($now - $this->checkedAt < self::CHECKPOINT_SECONDS) {
            return;
        }
        $this->checkedAt = $now;
        // Carries on this worker, too.
        $this->loop->step(0.0);
    }

    private function stopSignal(): void
    {
        $this->stop();
        if (!$this->loop->isPumping()) {
            $this->stopWhileBlocked();
        }
    }

    /** A handler has blocked the loop since the stop. Other workers get the jobs that wait. */
    private function stopWhileBlocked(): void
    {
        $this->graceUntil === null && $this->beginStop($this->loop->now());
        // Else SIGALRM cuts it if the handler goes on blocking, after a look for an answer that is on its way.
        $this->options->extendByAlarm ?: $this->cutReserve();
        $this->reports->flushNow($this->loop->now());
        $this->setAlarm();
    }

    private function abortAfterGrace(float $now): void
    {
        if ($now >= $this->graceUntil) {
            foreach ($this->runner->running() as $held) {
                $held->job->abort(AbortReason::Stopping);
                // The handler may block for ever.
                $this->giveBack($held);
            }
        }
    }

    /** A handler blocks the loop: nobody would extend the leases of jobs that arrive meanwhile. */
    private function cutReserve(): void
    {
        if ($this->reserver->isWaiting()) {
            // An answer that has arrived is taken.
            $this->loop->transport->tick(0.001);
            $this->reserver->cut();
        }
    }

    private function setAlarm(): void
    {
        $cutAt = $this->reserver->isWaiting() ? $this->steppedAt + 1.0 : INF;
        $next = min($this->leases->nextAt(), $this->nextMaxRun(), $this->graceUntil ?? INF, $cutAt);
        $this->signals->setAlarm($this->reports->count() > 0 ? 1.0 : $next - $this->loop->now());
    }

    /** SIGALRM: a handler has the thread, or had it. */
    private function alarm(): void
    {
        if ($this->loop->isPumping()) {
            // The handler that waits for the loop may block later.
            $this->runner->current() === null ?: $this->setAlarm();
            return;
        }
        $now = $this->loop->now();
        $now - $this->steppedAt < self::BLOCKED_RESERVE_SECONDS ?: $this->cutReserve();
        $this->leases->extendDueNow($now);
        $this->abortTooLong($now);
        $this->graceUntil === null ?: $this->abortAfterGrace($now);
        $this->reports->flushNow($now - self::BLOCKED_SECONDS);
        $this->setAlarm();
        $job = $this->runner->current()?->job;
        if ($this->options->interruptBlocking && $job?->isAborted() && Fiber::getCurrent() !== null) {
            throw new JobAborted($job->abortReason());
        }
    }
}
