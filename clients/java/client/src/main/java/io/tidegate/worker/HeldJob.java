package io.tidegate.worker;

import io.tidegate.internal.Timer;
import io.tidegate.model.LeasedJob;
import java.time.Duration;

/** A job that this worker holds, and its lease. Times are of {@link System#nanoTime}. */
final class HeldJob {
    private final Job job;
    private final Duration length;
    private final long lengthNanos;
    /** When the lease was granted or last extended. */
    private volatile long extendedAt;

    /** When the handler has run for too long, or null. */
    private volatile Long runsUntil;

    /** Whether a request that extends the lease is in flight. */
    private volatile boolean isTouching;

    HeldJob(LeasedJob leased, long now) {
        this.job = new Job(leased);
        this.length = leased.leaseLength();
        this.lengthNanos = Timer.nanos(length);
        this.extendedAt = now;
    }

    Job job() {
        return job;
    }

    Duration length() {
        return length;
    }

    /** When the lease expires. */
    long expiresAt() {
        return extendedAt + lengthNanos;
    }

    boolean isExpired(long now) {
        return now - expiresAt() >= 0;
    }

    boolean runsTooLong(long now) {
        Long until = runsUntil;
        return until != null && now - until >= 0;
    }

    /** Whether a third of the lease has passed. The lease of a handler that runs for too long is not extended. */
    boolean isDue(long now) {
        return !isTouching && now - extendedAt >= lengthNanos / 3 && !runsTooLong(now);
    }

    /** The handler starts. */
    void start(Duration maxRun, long now) {
        if (maxRun != null) {
            runsUntil = now + Timer.nanos(maxRun);
        }
    }

    void touching(boolean isInFlight) {
        isTouching = isInFlight;
    }

    /** The lease was extended by a request that was sent then. */
    void extended(long sentAt) {
        extendedAt = sentAt;
    }
}
