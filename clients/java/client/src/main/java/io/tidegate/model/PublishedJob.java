package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;

/**
 * The answer to a publish.
 *
 * @param id the id of the job
 * @param queue its queue
 * @param key its key, or null
 * @param outcome the outcome of the publish
 * @param state the state of the job then
 * @param runAt when it is due, or null if it is done
 * @param durability the copies of the job, such as {@code memory}
 * @param replayed whether the idempotency key was used before: nothing was stored
 */
public record PublishedJob(
        String id,
        String queue,
        String key,
        PublishOutcome outcome,
        JobState state,
        Instant runAt,
        String durability,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean replayed) {}
