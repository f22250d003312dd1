package io.tidegate.model;

import java.time.Instant;

/**
 * The answer to a change or a promote.
 *
 * @param id the id of the job
 * @param key its key, or null
 * @param outcome {@code changed}, {@code promoted} or {@code already_ready}
 * @param state its state, or null after a promote
 * @param runAt when it is due
 */
public record ChangedJob(String id, String key, String outcome, JobState state, Instant runAt) {}
