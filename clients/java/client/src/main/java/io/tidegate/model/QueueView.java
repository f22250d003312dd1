package io.tidegate.model;

import java.time.Instant;

/**
 * A queue.
 *
 * @param queue its name
 * @param jobs its jobs
 * @param paused whether no jobs are delivered
 * @param pausedUntil when deliveries continue, or null
 * @param closed whether publishes are refused
 */
public record QueueView(String queue, Counts jobs, boolean paused, Instant pausedUntil, boolean closed) {
    /**
     * Numbers of jobs.
     *
     * @param delayed jobs that are not due yet
     * @param ready jobs that wait for a worker
     * @param leased jobs that workers hold
     * @param dead jobs in the dead letter
     * @param done jobs that are done and kept
     */
    public record Counts(long delayed, long ready, long leased, long dead, long done) {}
}
