package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A job.
 *
 * @param id its id
 * @param queue its queue
 * @param key its key, or null
 * @param state its state
 * @param priority 0 to 4
 * @param group its group, or null
 * @param createdAt when it was published
 * @param runAt when it is or was due, or null if it is done
 * @param leaseUntil when the lease of its worker ends, or null
 * @param doneAt when it was done, or null
 * @param attempt how many attempts have begun
 * @param failures how many attempts have failed
 * @param losses how many attempts have lost their worker
 * @param maxAttempts after how many failures it is dead
 * @param contentType the content type of its payload, or null if it is done
 * @param payloadBytes the size of its payload
 * @param resultBytes the size of its result, or null
 * @param attributes its attributes
 * @param reason why it is dead ({@code failures}, {@code permanent}, {@code losses}, {@code unreadable}), or null
 * @param history its last failures, up to 10; in lists only the last one
 */
public record JobDetails(
        String id,
        String queue,
        String key,
        JobState state,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) int priority,
        String group,
        Instant createdAt,
        Instant runAt,
        Instant leaseUntil,
        Instant doneAt,
        int attempt,
        int failures,
        int losses,
        int maxAttempts,
        String contentType,
        long payloadBytes,
        Long resultBytes,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) Map<String, String> attributes,
        String reason,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) List<Failed> history) {

    /** Makes absent parts empty. */
    public JobDetails {
        attributes = attributes == null ? Map.of() : attributes;
        history = history == null ? List.of() : history;
    }

    /**
     * An attempt that failed.
     *
     * @param attempt its number
     * @param endedAt when it failed
     * @param error the text of the worker, or null
     */
    public record Failed(int attempt, Instant endedAt, String error) {}
}
