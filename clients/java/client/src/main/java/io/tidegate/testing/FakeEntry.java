package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.Payload;
import io.tidegate.model.JobDetails;
import io.tidegate.model.JobState;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A job of the fake. */
final class FakeEntry {
    private static final Pattern DURATION = Pattern.compile("(\\d+)(ms|s|m|h|d)");
    private static final int MAX_ATTEMPTS = 10;
    private static final Duration FIRST_DELAY = Duration.ofSeconds(1);
    private static final Duration LONGEST_DELAY = Duration.ofHours(1);

    final String id;
    final String queue;
    final String key;
    Payload payload;
    Map<String, String> attributes;
    JsonNode options;
    /** Null if it is deleted. */
    JobState state;

    final Instant createdAt;
    Instant runAt;
    Instant leaseUntil;
    Instant doneAt;
    Duration leaseLength;
    String lease;
    int attempt;
    int losses;
    boolean isCancelRequested;
    boolean isReplaced;
    final List<String> errors = new ArrayList<>();
    final List<JobDetails.Failed> history = new ArrayList<>();
    Payload result;

    FakeEntry(String id, String queue, String key, Instant createdAt) {
        this.id = id;
        this.queue = queue;
        this.key = key;
        this.createdAt = createdAt;
    }

    /** The new content and options of a job. */
    void fill(Payload payload, Map<String, String> attributes, JsonNode options, Instant now) {
        this.payload = payload;
        this.attributes = attributes;
        this.options = options;
        if (options.hasNonNull("run_at")) {
            runAt = Instant.ofEpochMilli(options.get("run_at").asLong());
        } else {
            runAt = now.plus(duration("delay", Duration.ZERO));
        }
    }

    void becomeDue(Instant when, Instant now) {
        runAt = when;
        lease = null;
        leaseUntil = null;
        state = when.isAfter(now) ? JobState.DELAYED : JobState.READY;
    }

    int priority() {
        return options.path("priority").asInt(0);
    }

    String group() {
        return options.path("group").asText(null);
    }

    int maxAttempts() {
        JsonNode retry = options.path("retry");
        return options.path("max_attempts").asInt(retry.path("max_attempts").asInt(MAX_ATTEMPTS));
    }

    Duration duration(String name, Duration absent) {
        return options.hasNonNull(name) ? parse(options.get(name).asText()) : absent;
    }

    /** The delay after so many failures, without jitter. */
    Duration retryDelay(int failures) {
        JsonNode retry = options.path("retry");
        if (retry.has("every")) {
            return parse(retry.get("every").asText());
        }
        if (retry.has("delays")) {
            JsonNode delays = retry.get("delays");
            return parse(delays.get(Math.min(failures, delays.size()) - 1).asText());
        }
        Duration first = retry.has("first") ? parse(retry.get("first").asText()) : FIRST_DELAY;
        Duration longest = retry.has("max") ? parse(retry.get("max").asText()) : LONGEST_DELAY;
        double ms = first.toMillis() * Math.pow(retry.path("factor").asDouble(2), failures - 1.0);
        return Duration.ofMillis((long) Math.min(ms, longest.toMillis()));
    }

    static Duration parse(String text) {
        Matcher parts = DURATION.matcher(text);
        Duration sum = Duration.ZERO;
        while (parts.find()) {
            long number = Long.parseLong(parts.group(1));
            sum = sum.plus(
                    switch (parts.group(2)) {
                        case "ms" -> Duration.ofMillis(number);
                        case "s" -> Duration.ofSeconds(number);
                        case "m" -> Duration.ofMinutes(number);
                        case "h" -> Duration.ofHours(number);
                        default -> Duration.ofDays(number);
                    });
        }
        return sum;
    }

    FakeJob view() {
        return new FakeJob(
                id, queue, key, state, payload, attributes, priority(), group(), createdAt, runAt, attempt,
                List.copyOf(errors), result);
    }

    JobDetails details() {
        boolean isDone = state == JobState.DONE;
        return new JobDetails(
                id,
                queue,
                key,
                state,
                priority(),
                group(),
                createdAt,
                isDone ? null : runAt,
                leaseUntil,
                doneAt,
                attempt,
                errors.size(),
                losses,
                maxAttempts(),
                isDone ? null : payload.contentType(),
                isDone ? 0 : payload.size(),
                result == null ? null : (long) result.size(),
                attributes,
                state == JobState.DEAD ? "failures" : null,
                List.copyOf(history));
    }
}
