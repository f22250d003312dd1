package io.tidegate;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.Json;
import io.tidegate.internal.PublishRequest;
import io.tidegate.internal.WireTime;
import io.tidegate.model.IfExists;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * The options of a publish. An option that is not set is not sent: the policy of the queue counts.
 *
 * @param <T> the subclass
 */
public abstract class JobOptions<T extends JobOptions<T>> {
    private static final String TRACE_PARENT = "traceparent";

    private final Object payload;
    private final ObjectNode options = Json.WIRE.createObjectNode();
    private final Map<String, String> attributes = new LinkedHashMap<>();
    private String idempotencyKey;
    private Boolean idempotent;

    JobOptions(Object payload) {
        this.payload = payload;
    }

    /**
     * Delays the job. Excludes {@link #runAt}.
     *
     * @param delay up to 557 years, rounded up to ms
     * @return this
     */
    public T delay(Duration delay) {
        return set("delay", delay);
    }

    /**
     * Sets when the job is due. Excludes {@link #delay}.
     *
     * @param runAt the instant, rounded up to ms; the past means now
     * @return this
     */
    public T runAt(Instant runAt) {
        options.put("run_at", WireTime.millis("run_at", runAt));
        return self();
    }

    /**
     * Sets a key, which is unique in the queue. {@link #ifExists} says what happens if a job has it.
     *
     * @param key 1 to 255 bytes of UTF-8 without control characters
     * @return this
     */
    public T key(String key) {
        options.put("key", Objects.requireNonNull(key, "key"));
        return self();
    }

    /**
     * Sets the effect on a job that has the key. Default: {@link IfExists#KEEP}.
     *
     * @param ifExists the effect
     * @return this
     */
    public T ifExists(IfExists ifExists) {
        options.set("if_exists", Json.WIRE.valueToTree(ifExists));
        return self();
    }

    /**
     * Sets how long the finished job stays, with its key and its result.
     *
     * @param retain up to 7 days
     * @return this
     */
    public T retain(Duration retain) {
        return set("retain", retain);
    }

    /**
     * Sets how long a worker may hold the job without extending its lease.
     *
     * @param lease 100 ms to 24 h
     * @return this
     */
    public T lease(Duration lease) {
        return set("lease", lease);
    }

    /**
     * Sets after how many failed attempts the job is dead.
     *
     * @param attempts 1 to 4,095
     * @return this
     */
    public T maxAttempts(int attempts) {
        options.put("max_attempts", attempts);
        return self();
    }

    /**
     * Sets when failed attempts are repeated.
     *
     * @param retry the policy
     * @return this
     */
    public T retry(Retry retry) {
        options.set("retry", retry.json());
        return self();
    }

    /**
     * Drops the job if no worker has started it within this time after it was due.
     *
     * @param limit up to 557 years
     * @return this
     */
    public T startWithin(Duration limit) {
        return set("start_within", limit);
    }

    /**
     * Sets how early the job is delivered among the ready jobs of its queue. Default: 0.
     *
     * @param priority 0 to 4; 4 is first
     * @return this
     */
    public T priority(int priority) {
        options.put("priority", priority);
        return self();
    }

    /**
     * Sets the group, such as a tenant. Ready jobs of a priority are delivered group by group in turn.
     *
     * @param group 1 to 128 bytes
     * @return this
     */
    public T group(String group) {
        options.put("group", Objects.requireNonNull(group, "group"));
        return self();
    }

    /**
     * Asks for a durability. If it is not reached in time, the publish fails with 504 {@code not_durable}, and the job
     * is stored all the same.
     *
     * @param durability {@code memory}, {@code fsync}, {@code replica:1} or {@code fsync+replica:1}
     * @return this
     */
    public T durability(String durability) {
        options.put("durability", Objects.requireNonNull(durability, "durability"));
        return self();
    }

    /**
     * Sets how often the job is delivered at most, as a job of lmstfy: the last delivery that is not acknowledged makes
     * it dead. Excludes {@link #maxAttempts}, {@link #retry} and {@link #startWithin}.
     *
     * @param deliveries 1 or more
     * @return this
     */
    public T maxDeliveries(int deliveries) {
        options.put("max_deliveries", deliveries);
        return self();
    }

    /**
     * Deletes the job so long after its publish, in any state but dead. Needs {@link #maxDeliveries}.
     *
     * @param ttl not shorter than the delay
     * @return this
     */
    public T ttl(Duration ttl) {
        return set("ttl", ttl);
    }

    /**
     * Sets the idempotency key. For 10 to 20 minutes a publish with it is answered with the first job.
     *
     * @param key 1 to 255 characters of ASCII without spaces
     * @return this
     */
    public T idempotencyKey(String key) {
        this.idempotencyKey = key;
        return self();
    }

    /**
     * Sets whether a random idempotency key is sent, by which the publish is safe to repeat. By default a publish
     * without a key gets one. Without it, a publish whose answer is lost is not repeated.
     *
     * @param idempotent whether one is sent
     * @return this
     */
    public T idempotent(boolean idempotent) {
        this.idempotent = idempotent;
        return self();
    }

    /**
     * Adds an attribute, which travels with the job.
     *
     * @param name 1 to 64 bytes of lower-case letters, digits, {@code -}, {@code _} and {@code .}
     * @param value up to 1,024 bytes, without spaces at its ends
     * @return this
     */
    public T attribute(String name, String value) {
        // A header would lose them.
        if (!value.strip().equals(value)) {
            String detail = "the value of the attribute \"" + name + "\" has spaces at its ends";
            throw new InvalidRequestException(Failure.notSent("attributes", detail), null);
        }
        attributes.put(name, value);
        return self();
    }

    /**
     * Adds attributes.
     *
     * @param attributes names and values
     * @return this
     */
    public T attributes(Map<String, String> attributes) {
        attributes.forEach(this::attribute);
        return self();
    }

    private T set(String name, Duration value) {
        options.put(name, WireTime.text(name, value));
        return self();
    }

    @SuppressWarnings("unchecked")
    private T self() {
        return (T) this;
    }

    Object payload() {
        return payload;
    }

    ObjectNode options() {
        return options;
    }

    Map<String, String> attributes() {
        return attributes;
    }

    /** The job as it is sent. Each call without an idempotency key makes another one. */
    PublishRequest request(ClientCore core, String queue) {
        String traceParent = core.traceParent();
        Map<String, String> all = new LinkedHashMap<>(attributes);
        if (traceParent != null) {
            all.putIfAbsent(TRACE_PARENT, traceParent);
        }
        Payload content = Payload.of(payload, core.mapper());
        return new PublishRequest(queue, content, all, options.deepCopy(), sentIdempotencyKey(), traceParent);
    }

    private String sentIdempotencyKey() {
        if (idempotencyKey != null) {
            return idempotencyKey;
        }
        // A repetition that finds the job of the first attempt must not be rejected.
        boolean isRejected = "reject".equals(options.path("if_exists").asText());
        boolean isNeeded = idempotent != null ? idempotent : !options.has("key") || isRejected;
        return isNeeded ? UUID.randomUUID().toString() : null;
    }
}
