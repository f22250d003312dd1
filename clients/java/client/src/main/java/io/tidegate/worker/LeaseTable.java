package io.tidegate.worker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;

/**
 * The jobs that the worker holds: their handlers run, or they wait for a slot. Who removes a job from the table reports
 * its end, so it is reported once.
 */
final class LeaseTable {
    private static final long TICK_MIN_MS = 10;
    private static final long TICK_MAX_MS = 1_000;
    /** A lease is extended after a third of it. Looking twice as often bounds how late that is. */
    private static final int TICKS_PER_LEASE = 6;

    private final Set<HeldJob> held = ConcurrentHashMap.newKeySet();
    /** The shortest time that was ever to be watched. */
    private final AtomicLong shortestMs;

    private final BiConsumer<Job, AbortReason> aborts;

    /**
     * An empty table.
     *
     * @param maxRun how long handlers may run, or null
     * @param aborts is told of handlers that are asked to stop
     */
    LeaseTable(Duration maxRun, BiConsumer<Job, AbortReason> aborts) {
        this.shortestMs = new AtomicLong(maxRun == null ? Long.MAX_VALUE : maxRun.toMillis());
        this.aborts = aborts;
    }

    void add(HeldJob job) {
        held.add(job);
        long ms = job.length().toMillis();
        if (ms < shortestMs.get() && shortestMs.accumulateAndGet(ms, Math::min) == ms) {
            synchronized (this) {
                notifyAll();
            }
        }
    }

    /** Whether the job was in the table. */
    boolean remove(HeldJob job) {
        return held.remove(job);
    }

    boolean contains(HeldJob job) {
        return held.contains(job);
    }

    /** Removes all jobs. */
    List<HeldJob> drain() {
        return held.stream().filter(held::remove).toList();
    }

    /** Waits until it is time to look for leases to extend. */
    void awaitTick() throws InterruptedException {
        synchronized (this) {
            wait(Math.max(TICK_MIN_MS, Math.min(TICK_MAX_MS, shortestMs.get() / TICKS_PER_LEASE)));
        }
    }

    /** The leases to extend now. Aborts handlers whose leases have expired, or that run for too long. */
    List<HeldJob> due(long now) {
        List<HeldJob> due = new ArrayList<>();
        for (HeldJob job : held) {
            if (job.isExpired(now)) {
                lost(job);
            } else if (job.runsTooLong(now)) {
                abort(job, AbortReason.MAX_RUN);
            } else if (job.isDue(now)) {
                due.add(job);
            }
        }
        return due;
    }

    /** A lease is lost: the end of the handler has no effect. */
    void lost(HeldJob job) {
        if (remove(job)) {
            abort(job, AbortReason.LEASE_LOST);
        }
    }

    void abort(HeldJob job, AbortReason reason) {
        if (job.job().markAborted(reason)) {
            // Before the handler can end.
            aborts.accept(job.job(), reason);
            job.job().interrupt();
        }
    }

    /** Asks all handlers to stop. */
    void abortAll(AbortReason reason) {
        held.forEach(job -> abort(job, reason));
    }
}
