package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.internal.WireTime;
import java.time.Duration;
import java.time.Instant;

/** A change of the policy of a queue. Fields that are not set stay as they are; null sets the default. */
public final class PolicyChange extends WireObject<PolicyChange> {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    /** A change of nothing. */
    public PolicyChange() {}

    /**
     * A change as the server reads it.
     *
     * @param change an object with the fields of the API
     * @return the change
     */
    public static PolicyChange ofJson(JsonNode change) {
        return new PolicyChange().putAll(change);
    }

    /**
     * Sets the length of leases, if neither the reserve nor the job says. Default: 60 s.
     *
     * @param lease 100 ms to 24 h
     * @return this
     */
    public PolicyChange lease(Duration lease) {
        return put("lease", lease);
    }

    /**
     * Sets when failed attempts are repeated. Default: after 1 s, doubled up to 1 h, 10 attempts.
     *
     * @param retry the policy
     * @return this
     */
    public PolicyChange retry(Retry retry) {
        return put("retry", retry);
    }

    /**
     * Sets how long a finished job is kept with its key and result. Default: 0.
     *
     * @param retain up to 7 days
     * @return this
     */
    public PolicyChange retain(Duration retain) {
        return put("retain", retain);
    }

    /**
     * Stops or resumes deliveries. Publishes and acks go on.
     *
     * @param paused whether no jobs are delivered
     * @return this
     */
    public PolicyChange paused(boolean paused) {
        return put("paused", paused);
    }

    /**
     * Stops deliveries until an instant.
     *
     * @param until when deliveries continue
     * @return this
     */
    public PolicyChange pausedUntil(Instant until) {
        return put("paused_until", until);
    }

    /**
     * Refuses or accepts publishes. A refused publish is a conflict, {@code queue_closed}.
     *
     * @param closed whether publishes are refused
     * @return this
     */
    public PolicyChange closed(boolean closed) {
        return put("closed", closed);
    }

    /**
     * Limits the jobs that are not done. A publish beyond it is a {@code RateLimitedException}, {@code queue_full}.
     *
     * @param jobs 1 or more, or null for no limit
     * @return this
     */
    public PolicyChange maxJobs(Long jobs) {
        return put("max_jobs", jobs);
    }

    /**
     * Limits the jobs that workers hold at a time.
     *
     * @param jobs 1 or more, or null for no limit
     * @return this
     */
    public PolicyChange maxRunning(Long jobs) {
        return put("max_running", jobs);
    }

    /**
     * Limits the jobs of each group that workers hold at a time.
     *
     * @param jobs 1 or more, or null for no limit
     * @return this
     */
    public PolicyChange maxRunningOfGroup(Long jobs) {
        ObjectNode groups = NODES.objectNode();
        groups.put("max_running", jobs);
        return with("groups", groups);
    }

    /**
     * Limits how many jobs are delivered in a time.
     *
     * @param jobs 1 to 1,000,000
     * @param per 100 ms to 24 h
     * @return this
     */
    public PolicyChange rate(long jobs, Duration per) {
        ObjectNode rate = NODES.objectNode();
        rate.put("jobs", jobs);
        rate.put("per", WireTime.text("rate", per));
        return with("rate", rate);
    }

    /**
     * Removes the rate.
     *
     * @return this
     */
    public PolicyChange noRate() {
        return with("rate", NODES.nullNode());
    }

    /**
     * Names a limit of the namespace, which queues share.
     *
     * @param name the name of the limit, or null for none
     * @return this
     */
    public PolicyChange limit(String name) {
        return put("limit", name);
    }

    /**
     * Sets how long dead jobs are kept. Default: for ever.
     *
     * @param keep how long, or null for ever
     * @return this
     */
    public PolicyChange keepDead(Duration keep) {
        return put("keep_dead", keep);
    }
}
