package io.tidegate.internal;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.error.Applied;
import io.tidegate.error.Failure;
import io.tidegate.error.TidegateException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** Exceptions of problem documents (RFC 9457) and of other answers that are no success. */
public final class Problems {
    /** How much of an answer that is no problem document an exception shows. */
    private static final int SHOWN_CHARS = 200;

    private Problems() {}

    /** The exception of an answer that is no success. */
    public static TidegateException of(HttpReply reply) {
        Duration retryAfter = retryAfter(reply.header("Retry-After"), Instant.now());
        try {
            JsonNode problem = Json.WIRE.readTree(reply.body());
            if (problem != null && problem.path("code").isTextual()) {
                return of(reply.status(), problem, retryAfter);
            }
        } catch (IOException notJson) {
            // An answer of a proxy, perhaps: its text is shown.
        }
        return TidegateException.of(unexpected(reply, retryAfter), null);
    }

    /** The exception of a problem document in an answer about several jobs. */
    public static TidegateException of(JsonNode problem) {
        return of(problem.path("status").asInt(), problem, null);
    }

    private static TidegateException of(int status, JsonNode problem, Duration retryAfter) {
        Failure failure = new Failure(
                status,
                problem.path("code").asText(),
                problem.path("detail").asText(),
                applied(problem.path("applied"), Applied.NO),
                text(problem, "field"),
                retryAfter,
                text(problem, "job"));
        return TidegateException.of(failure, null);
    }

    private static Failure unexpected(HttpReply reply, Duration retryAfter) {
        String body = new String(reply.body(), StandardCharsets.UTF_8);
        String shown = body.length() > SHOWN_CHARS ? body.substring(0, SHOWN_CHARS) : body;
        String detail = "unexpected answer" + (shown.isBlank() ? "" : ": " + shown.strip());
        return new Failure(reply.status(), "", detail, Applied.UNKNOWN, null, retryAfter, null);
    }

    /** Requests that change nothing have no {@code applied}. */
    private static Applied applied(JsonNode value, Applied absent) {
        return switch (value.asText()) {
            case "no" -> Applied.NO;
            case "yes" -> Applied.YES;
            case "unknown" -> Applied.UNKNOWN;
            default -> absent;
        };
    }

    private static String text(JsonNode problem, String name) {
        JsonNode value = problem.path(name);
        return value.isTextual() ? value.asText() : null;
    }

    /** The value of the header: seconds, or a date. A date that has passed is no delay. Null if it is neither. */
    static Duration retryAfter(String header, Instant now) {
        if (header == null) {
            return null;
        }
        String text = header.strip();
        try {
            return Duration.ofSeconds(Math.max(0, Long.parseLong(text)));
        } catch (NumberFormatException noSeconds) {
            return untilDate(text, now);
        }
    }

    private static Duration untilDate(String text, Instant now) {
        try {
            DateTimeFormatter form = DateTimeFormatter.RFC_1123_DATE_TIME.withLocale(Locale.ROOT);
            Duration left = Duration.between(now, form.parse(text, Instant::from));
            return left.isNegative() ? Duration.ZERO : left;
        } catch (DateTimeException noDate) {
            return null;
        }
    }
}
