package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.model.IfRunning;

/** An action on all jobs of a queue that match a filter. */
public final class JobAction extends WireObject<JobAction> {
    private JobAction(String verb, JobFilter filter) {
        put("do", verb).put("filter", filter);
    }

    /**
     * An action by its name, for verbs that this version of the client does not know.
     *
     * @param verb such as {@code cancel}
     * @param filter which jobs
     * @return the action
     */
    public static JobAction of(String verb, JobFilter filter) {
        return new JobAction(verb, filter);
    }

    /**
     * Cancels delayed, ready and leased jobs. Jobs that workers hold are left out, unless {@link #running} says
     * otherwise.
     *
     * @param filter which jobs
     * @return the action
     */
    public static JobAction cancel(JobFilter filter) {
        return of("cancel", filter);
    }

    /**
     * Makes delayed jobs ready.
     *
     * @param filter which jobs
     * @return the action
     */
    public static JobAction promote(JobFilter filter) {
        return of("promote", filter);
    }

    /**
     * Changes delayed and ready jobs.
     *
     * @param filter which jobs
     * @param change the change
     * @return the action
     */
    public static JobAction change(JobFilter filter, JobChange change) {
        return of("change", filter).put("change", change);
    }

    /**
     * Brings dead jobs back, with all their attempts.
     *
     * @param filter which jobs
     * @return the action
     */
    public static JobAction respawn(JobFilter filter) {
        return of("respawn", filter);
    }

    /**
     * Deletes ready or dead jobs.
     *
     * @param filter which jobs; it must have a state
     * @return the action
     */
    public static JobAction purge(JobFilter filter) {
        return of("purge", filter);
    }

    /**
     * Sets the effect of a cancel on jobs that workers hold.
     *
     * @param running the effect
     * @return this
     */
    public JobAction running(IfRunning running) {
        return put("running", running);
    }

    /**
     * Makes respawned jobs due at even spaces, so that what broke is not broken again.
     *
     * @param jobs how many become due each second
     * @return this
     */
    public JobAction ratePerSecond(double jobs) {
        return put("rate_per_second", jobs);
    }

    /**
     * Only counts the jobs.
     *
     * @return this
     */
    public JobAction dryRun() {
        return put("dry_run", true);
    }

    JsonNode from(String cursor) {
        JsonNode action = json();
        if (cursor != null) {
            ((com.fasterxml.jackson.databind.node.ObjectNode) action).put("cursor", cursor);
        }
        return action;
    }
}
