package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.internal.Json;
import java.io.IOException;
import java.io.UncheckedIOException;

/** A job of a batch or of a schedule, with its options. */
public final class BatchJob extends JobOptions<BatchJob> {
    private BatchJob(Object payload) {
        super(payload);
    }

    /**
     * A job.
     *
     * @param payload a {@link Payload}, a {@code byte[]}, or a value that becomes JSON
     * @return the job
     */
    public static BatchJob of(Object payload) {
        return new BatchJob(payload);
    }

    /** The job of a schedule: attributes and options, and no keys. */
    JsonNode scheduled() {
        Payload content = Payload.of(payload(), Json.forPayloads());
        ObjectNode job = options().deepCopy();
        if (content.isWritten()) {
            job.set("payload", tree(content));
        } else {
            job.put("payload_base64", content.bytes()).put("content_type", content.contentType());
        }
        if (!attributes().isEmpty()) {
            job.set("attributes", Json.WIRE.valueToTree(attributes()));
        }
        return job;
    }

    private static JsonNode tree(Payload json) {
        try {
            return Json.WIRE.readTree(json.bytes());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
