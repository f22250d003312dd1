package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Arrays;

/** When failed attempts are repeated: of a queue, or of one job. */
public final class Retry extends WireObject<Retry> {
    private Retry() {}

    /**
     * Always the same delay.
     *
     * @param delay up to 30 days
     * @return the policy
     */
    public static Retry every(Duration delay) {
        return new Retry().put("every", delay);
    }

    /**
     * One delay after the other; the last one repeats.
     *
     * @param delays 1 to 16 delays, each up to 30 days
     * @return the policy
     */
    public static Retry delays(Duration... delays) {
        String[] texts = Arrays.stream(delays)
                .map(delay -> io.tidegate.internal.WireTime.text("delays", delay))
                .toArray(String[]::new);
        return new Retry().put("delays", texts);
    }

    /**
     * Delays that grow, by default twice as long each time, up to 1 h.
     *
     * @param first the first delay
     * @return the policy
     */
    public static Retry growing(Duration first) {
        return new Retry().put("first", first);
    }

    /**
     * The default delays, with another number of attempts.
     *
     * @param attempts 1 to 4,095
     * @return the policy
     */
    public static Retry attempts(int attempts) {
        return new Retry().maxAttempts(attempts);
    }

    /**
     * A policy as the server reads it.
     *
     * @param policy an object with the fields of the API
     * @return the policy
     */
    public static Retry ofJson(JsonNode policy) {
        return new Retry().putAll(policy);
    }

    /**
     * Sets by which factor growing delays grow. Default: 2.
     *
     * @param factor 1 or more
     * @return this
     */
    public Retry factor(double factor) {
        return put("factor", factor);
    }

    /**
     * Sets the longest of growing delays. Default: 1 h.
     *
     * @param longest up to 30 days
     * @return this
     */
    public Retry longest(Duration longest) {
        return put("max", longest);
    }

    /**
     * Makes each delay longer at random, by up to this part of it. Default: 0.1.
     *
     * @param part 0 to 1
     * @return this
     */
    public Retry jitter(double part) {
        return put("jitter", part);
    }

    /**
     * Sets after how many failed attempts a job is dead. Default: 10.
     *
     * @param attempts 1 to 4,095
     * @return this
     */
    public Retry maxAttempts(int attempts) {
        return put("max_attempts", attempts);
    }
}
