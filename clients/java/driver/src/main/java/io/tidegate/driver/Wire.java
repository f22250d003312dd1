package io.tidegate.driver;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.JobOptions;
import io.tidegate.JobResult;
import io.tidegate.Payload;
import io.tidegate.Retry;
import io.tidegate.error.AuthException;
import io.tidegate.error.ConflictException;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.error.NotFoundException;
import io.tidegate.error.RateLimitedException;
import io.tidegate.error.TidegateException;
import io.tidegate.model.IfExists;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Locale;

/** The values of the protocol. */
final class Wire {
    static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
            .build();

    private Wire() {}

    static Duration duration(JsonNode object, String field) {
        return object.hasNonNull(field) ? Duration.ofMillis(object.get(field).asLong()) : null;
    }

    /** An instant in ms since 1970, or as the server writes it. */
    static Instant instant(JsonNode value) {
        return value.isNumber() ? Instant.ofEpochMilli(value.asLong()) : Instant.parse(value.asText());
    }

    /** What a command publishes: JSON, or bytes with a content type. */
    static Object payload(JsonNode job) throws IOException {
        if (job.has("payload_base64")) {
            String type = job.path("content_type").asText("application/octet-stream");
            return Payload.bytes(job.get("payload_base64").binaryValue(), type);
        }
        return job.path("payload");
    }

    static <T extends JobOptions<T>> T withOptions(T publish, JsonNode job) {
        job.path("attributes").properties().forEach(it -> publish.attribute(it.getKey(), it.getValue().asText()));
        job.path("options").properties().forEach(it -> option(publish, it.getKey(), it.getValue()));
        return publish;
    }

    private static <T extends JobOptions<T>> T option(T publish, String name, JsonNode value) {
        return switch (name) {
            case "delay_ms" -> publish.delay(Duration.ofMillis(value.asLong()));
            case "run_at_ms" -> publish.runAt(instant(value));
            case "key" -> publish.key(value.asText());
            case "if_exists" -> publish.ifExists(IfExists.valueOf(value.asText().toUpperCase(Locale.ROOT)));
            case "retain_ms" -> publish.retain(Duration.ofMillis(value.asLong()));
            case "lease_ms" -> publish.lease(Duration.ofMillis(value.asLong()));
            case "max_attempts" -> publish.maxAttempts(value.asInt());
            case "retry" -> publish.retry(Retry.ofJson(value));
            case "start_within_ms" -> publish.startWithin(Duration.ofMillis(value.asLong()));
            case "priority" -> publish.priority(value.asInt());
            case "group" -> publish.group(value.asText());
            case "durability" -> publish.durability(value.asText());
            case "idempotency_key" -> publish.idempotencyKey(value.asText());
            case "idempotent" -> publish.idempotent(value.asBoolean());
            case "max_deliveries" -> publish.maxDeliveries(value.asInt());
            case "ttl_ms" -> publish.ttl(Duration.ofMillis(value.asLong()));
            default -> throw new IllegalArgumentException("no option " + name);
        };
    }

    /** A payload under this name, or its bytes. */
    static ObjectNode put(ObjectNode object, String name, Payload payload) {
        if (payload.isJson()) {
            return object.set(name, payload.as(JsonNode.class));
        }
        return object.put(name + "_base64", payload.bytes()).put("content_type", payload.contentType());
    }

    static JsonNode result(String name, JobResult result) {
        ObjectNode answer = MAPPER.createObjectNode();
        if (result.isPending()) {
            return answer.put("pending", result.jobId());
        }
        return result.payload().map(it -> (JsonNode) put(answer, name, it)).orElseGet(() -> answer.putNull(name));
    }

    static JsonNode error(Throwable error) {
        ObjectNode answer = MAPPER.createObjectNode();
        if (!(error instanceof TidegateException failure)) {
            return answer.put("class", "Unexpected").put("detail", error.toString());
        }
        answer.put("class", className(failure));
        if (failure.status() != 0) {
            answer.put("status", failure.status());
        }
        if (!failure.code().isEmpty()) {
            answer.put("code", failure.code());
        }
        answer.put("detail", failure.detail());
        answer.put("applied", failure.applied().name().toLowerCase(Locale.ROOT));
        failure.field().ifPresent(field -> answer.put("field", field));
        failure.retryAfter().ifPresent(after -> answer.put("retry_after_ms", after.toMillis()));
        return answer;
    }

    private static String className(TidegateException error) {
        if (error instanceof AuthException) {
            return "AuthError";
        } else if (error instanceof NotFoundException) {
            return "NotFoundError";
        } else if (error instanceof ConflictException) {
            return "ConflictError";
        } else if (error instanceof RateLimitedException) {
            return "RateLimitedError";
        } else if (error instanceof InvalidRequestException) {
            return "InvalidRequestError";
        }
        return error instanceof ConnectionException ? "ConnectionError" : "ServerError";
    }
}
