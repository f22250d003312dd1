package io.tidegate.testing;

import io.tidegate.Payload;
import io.tidegate.model.JobState;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A job that was published to a {@link FakeTidegate}, as it is now.
 *
 * @param id its id
 * @param queue its queue
 * @param key its key, or null
 * @param state its state, or null if it is deleted: done and not retained, or cancelled
 * @param payload its payload
 * @param attributes its attributes
 * @param priority 0 to 4
 * @param group its group, or null
 * @param createdAt when it was published
 * @param runAt when it is due
 * @param attempt how many attempts have begun
 * @param errors the errors of attempts that failed
 * @param result its result, or null
 */
public record FakeJob(
        String id,
        String queue,
        String key,
        JobState state,
        Payload payload,
        Map<String, String> attributes,
        int priority,
        String group,
        Instant createdAt,
        Instant runAt,
        int attempt,
        List<String> errors,
        Payload result) {}
