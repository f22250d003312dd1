package io.tidegate.model;

import io.tidegate.Payload;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * A job that a reserve has leased.
 *
 * @param id its id
 * @param queue its queue
 * @param lease the lease, by which it is acknowledged, extended or given back
 * @param leaseLength how long the lease was when the server answered
 * @param attempt the number of this attempt, from 1; it only grows
 * @param failures how many attempts have failed
 * @param losses how many attempts have lost their worker
 * @param runAt when it was due
 * @param createdAt when it was published
 * @param key its key, or null
 * @param group its group, or null
 * @param attributes its attributes
 * @param payload its payload
 * @param traceParent the span of this delivery, if the server traces it, or null
 */
public record LeasedJob(
        String id,
        String queue,
        String lease,
        Duration leaseLength,
        int attempt,
        int failures,
        int losses,
        Instant runAt,
        Instant createdAt,
        String key,
        String group,
        Map<String, String> attributes,
        Payload payload,
        String traceParent) {}
