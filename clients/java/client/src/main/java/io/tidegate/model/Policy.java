package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * The policy of a queue.
 *
 * @param lease the length of leases, if neither the reserve nor the job says
 * @param retry when failed attempts are repeated
 * @param retain how long a finished job is kept
 * @param paused whether no jobs are delivered
 * @param pausedUntil when deliveries continue, or null
 * @param closed whether publishes are refused
 * @param maxJobs the most jobs that are not done, or null for no limit
 * @param maxRunning the most jobs that workers hold at a time, or null for no limit
 * @param groups limits of each group
 * @param rate the most deliveries in a time, or null for no limit
 * @param limit the limit that it shares with other queues, or null
 * @param keepDead how long dead jobs are kept, or null for ever
 * @param revision the version, by which a change may be conditional; null if the server sent none
 */
public record Policy(
        @JsonProperty("lease_ms") Duration lease,
        Retry retry,
        @JsonProperty("retain_ms") Duration retain,
        boolean paused,
        @JsonInclude Instant pausedUntil,
        boolean closed,
        @JsonInclude Long maxJobs,
        @JsonInclude Long maxRunning,
        Groups groups,
        @JsonInclude Rate rate,
        @JsonInclude String limit,
        @JsonInclude @JsonProperty("keep_dead_ms") Duration keepDead,
        String revision) {

    /**
     * The same policy with its version.
     *
     * @param revision the version
     * @return the policy
     */
    public Policy withRevision(String revision) {
        return new Policy(
                lease, retry, retain, paused, pausedUntil, closed, maxJobs, maxRunning, groups, rate, limit, keepDead,
                revision);
    }

    /**
     * When failed attempts are repeated: after {@code delays}, or delays that grow from {@code first}.
     *
     * @param maxAttempts after how many failures a job is dead
     * @param first the first delay, or null
     * @param factor by which factor delays grow, or null
     * @param max the longest delay, or null
     * @param delays the delays, or null
     * @param jitter by which part each delay is made longer at random
     */
    public record Retry(
            int maxAttempts,
            @JsonProperty("first_ms") Duration first,
            Double factor,
            @JsonProperty("max_ms") Duration max,
            @JsonProperty("delays_ms") List<Duration> delays,
            double jitter) {}

    /**
     * Limits of each group.
     *
     * @param maxRunning the most jobs of a group that workers hold at a time, or null for no limit
     */
    public record Groups(@JsonInclude Long maxRunning) {}

    /**
     * A number of deliveries in a time.
     *
     * @param jobs the number
     * @param per the time
     */
    public record Rate(long jobs, @JsonProperty("per_ms") Duration per) {}
}
