package io.tidegate.model;

/**
 * The answer to a cancel.
 *
 * @param outcome the outcome
 * @param id the id of the job
 * @param was the state that the job had, or null if it is not deleted by this cancel
 */
public record CancelledJob(CancelOutcome outcome, String id, JobState was) {}
