package io.tidegate.internal;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Runs short tasks later, on one thread for the whole process. */
public final class Timer {
    private static final ScheduledThreadPoolExecutor EXECUTOR = executor();

    private Timer() {}

    /** Runs a task that does not block after this time. */
    public static Future<?> after(Duration delay, Runnable task) {
        return EXECUTOR.schedule(task, nanos(delay), TimeUnit.NANOSECONDS);
    }

    /** A duration in ns; a duration of more than 292 years is so long. */
    public static long nanos(Duration duration) {
        try {
            return duration.toNanos();
        } catch (ArithmeticException tooLong) {
            // Half of the range, so that a deadline does not overflow.
            return Long.MAX_VALUE / 2;
        }
    }

    private static ScheduledThreadPoolExecutor executor() {
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "tidegate-timer");
            thread.setDaemon(true);
            return thread;
        });
        // Time limits are nearly always cancelled, and would fill the queue.
        executor.setRemoveOnCancelPolicy(true);
        return executor;
    }
}
