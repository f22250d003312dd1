package io.tidegate.model;

import java.time.Instant;
import java.util.List;

/**
 * Why a job does not run, or is in its state.
 *
 * @param id the id of the job
 * @param queue its queue
 * @param key its key, or null
 * @param state its state
 * @param cause the cause, such as {@code paused}; later servers may have further ones
 * @param summary the cause in a sentence
 * @param facts further facts
 */
public record JobExplanation(
        String id, String queue, String key, JobState state, String cause, String summary, List<Fact> facts) {

    /**
     * A fact about the job.
     *
     * @param code its name, such as {@code due}
     * @param text the fact in a sentence
     * @param at the instant that it is about, or null
     * @param count the number that it is about, or null
     * @param worker the worker that it is about, or null
     */
    public record Fact(String code, String text, Instant at, Long count, String worker) {}
}
