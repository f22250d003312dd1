package io.tidegate.internal;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.Payload;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A job to publish.
 *
 * @param options the options by their names on the wire, without {@code idempotency_key}
 * @param idempotencyKey the idempotency key, or null
 * @param traceParent the span of the caller, or null
 */
public record PublishRequest(
        String queue,
        Payload payload,
        Map<String, String> attributes,
        ObjectNode options,
        String idempotencyKey,
        String traceParent) {
    private static final String JSON = "application/json";
    /** The share of an item of a batch that is neither payload nor attributes, at most about. */
    private static final int OPTIONS_BYTES = 512;

    /** Whether a repetition finds the job of the first attempt. */
    public Safety safety() {
        boolean hasKey = options.has("key") || idempotencyKey != null;
        return hasKey ? Safety.REPEATABLE : Safety.ONLY_IF_NOT_APPLIED;
    }

    /**
     * Whether headers can carry the attributes: the HTTP client of the JDK sends ASCII only. Other jobs travel as a
     * batch of one job.
     */
    public boolean fitsHeaders() {
        return attributes.values().stream().allMatch(value -> value.chars().allMatch(it -> it >= ' ' && it < 127));
    }

    /**
     * Whether a batch can carry the job. In its field {@code payload}, {@code null} means that there is none.
     */
    public boolean fitsBatch() {
        return !isPlainJson() || !"null".equals(payloadText().strip());
    }

    /** About as many bytes as the item of a batch has. */
    public int estimatedBytes() {
        int payloadBytes = isPlainJson() ? payload.size() : payload.size() / 3 * 4 + 4;
        int attributeBytes = attributes.entrySet().stream()
                .mapToInt(it -> 3 * (it.getKey().length() + it.getValue().length()))
                .sum();
        return payloadBytes + attributeBytes + OPTIONS_BYTES;
    }

    /** The request that publishes this job alone, and waits so long until it is done. Null for no wait. */
    public HttpCall single(Duration wait) {
        StringBuilder path = new StringBuilder("/queues/").append(queue).append("/jobs");
        path.append(wait == null ? "" : "/call");
        char separator = '?';
        for (Map.Entry<String, JsonNode> option : options.properties()) {
            JsonNode value = option.getValue();
            String text = value.isValueNode() ? value.asText() : value.toString();
            path.append(separator).append(option.getKey()).append('=').append(Names.encode(text));
            separator = '&';
        }
        if (wait != null) {
            path.append(separator).append("wait=").append(WireTime.text("wait", wait));
        }
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Content-Type", payload.contentType());
        attributes.forEach((name, value) -> headers.put("Job-Attr-" + name, value));
        HttpCall call = new HttpCall("POST", path.toString(), headers, payload.bytes(), Duration.ZERO);
        call = call.header("Idempotency-Key", idempotencyKey).header("traceparent", traceParent);
        return wait == null ? call : call.waiting(wait);
    }

    /** The request that publishes jobs of one queue together. */
    public static HttpCall batch(List<PublishRequest> jobs, boolean isAtomic) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        try (JsonGenerator out = Json.WIRE.createGenerator(body)) {
            out.writeStartObject();
            out.writeArrayFieldStart("jobs");
            for (PublishRequest job : jobs) {
                job.writeItem(out);
            }
            out.writeEndArray();
            if (isAtomic) {
                out.writeBooleanField("atomic", true);
            }
            out.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        String path = "/queues/" + jobs.get(0).queue + "/jobs/batch";
        return HttpCall.jsonBytes("POST", path, body.toByteArray());
    }

    private void writeItem(JsonGenerator out) throws IOException {
        out.writeStartObject();
        if (isPlainJson()) {
            out.writeFieldName("payload");
            out.writeRawValue(payloadText());
        } else {
            out.writeBinaryField("payload_base64", payload.bytes());
            out.writeStringField("content_type", payload.contentType());
        }
        if (!attributes.isEmpty()) {
            out.writeObjectFieldStart("attributes");
            for (Map.Entry<String, String> attribute : attributes.entrySet()) {
                out.writeStringField(attribute.getKey(), attribute.getValue());
            }
            out.writeEndObject();
        }
        if (idempotencyKey != null) {
            out.writeStringField("idempotency_key", idempotencyKey);
        }
        for (Map.Entry<String, JsonNode> option : options.properties()) {
            out.writeFieldName(option.getKey());
            out.writeTree(option.getValue());
        }
        out.writeEndObject();
    }

    /** Whether the payload is JSON that this client has written: bytes of a user may be no JSON. */
    private boolean isPlainJson() {
        return payload.isWritten() && payload.contentType().equals(JSON);
    }

    private String payloadText() {
        return new String(payload.bytes(), StandardCharsets.UTF_8);
    }
}
