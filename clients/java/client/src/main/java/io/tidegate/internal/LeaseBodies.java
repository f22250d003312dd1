package io.tidegate.internal;

import com.fasterxml.jackson.core.JsonGenerator;
import io.tidegate.Payload;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;

/** The bodies of requests about leases. */
public final class LeaseBodies {
    /** The server cuts longer errors to 1,024 bytes. */
    private static final int ERROR_CHARS_MAX = 1024;

    private LeaseBodies() {}

    /**
     * A job that is done.
     *
     * @param result its result, or null
     */
    public record Done(String lease, Payload result) {}

    /**
     * A job that has failed.
     *
     * @param retryIn the delay before the next attempt, or null for the delay of its policy
     */
    public record Failed(String lease, String error, Duration retryIn, boolean isDead) {}

    /** Writes a part of a body. */
    public interface Part {
        /** Writes it. */
        void write(JsonGenerator out) throws IOException;
    }

    /** The body of an ack. */
    public static byte[] ack(List<Done> jobs) {
        return object(out -> writeDone(out, "leases", jobs));
    }

    /** The body of a fail. */
    public static byte[] fail(List<Failed> jobs) {
        return object(out -> writeFailed(out, "leases", jobs));
    }

    /** The body of a touch or release, with a duration if it is not null. */
    public static byte[] leases(Collection<String> leases, String durationName, Duration duration) {
        return object(out -> {
            out.writeArrayFieldStart("leases");
            for (String lease : leases) {
                out.writeString(lease);
            }
            out.writeEndArray();
            if (duration != null) {
                out.writeStringField(durationName, WireTime.text(durationName, duration));
            }
        });
    }

    /** A document with these fields. */
    public static byte[] object(Part fields) {
        ByteArrayOutputStream body = new ByteArrayOutputStream(512);
        try (JsonGenerator out = Json.WIRE.createGenerator(body)) {
            out.writeStartObject();
            fields.write(out);
            out.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return body.toByteArray();
    }

    /** Writes jobs that are done as a field. */
    public static void writeDone(JsonGenerator out, String field, List<Done> jobs) throws IOException {
        out.writeArrayFieldStart(field);
        for (Done job : jobs) {
            if (job.result == null) {
                out.writeString(job.lease);
            } else {
                writeResult(out, job);
            }
        }
        out.writeEndArray();
    }

    private static void writeResult(JsonGenerator out, Done job) throws IOException {
        out.writeStartObject();
        out.writeStringField("lease", job.lease);
        if (job.result.isWritten()) {
            out.writeFieldName("result");
            out.writeRawValue(new String(job.result.bytes(), StandardCharsets.UTF_8));
        } else {
            out.writeBinaryField("result_base64", job.result.bytes());
            out.writeStringField("content_type", job.result.contentType());
        }
        out.writeEndObject();
    }

    /** Writes jobs that have failed as a field. */
    public static void writeFailed(JsonGenerator out, String field, List<Failed> jobs) throws IOException {
        out.writeArrayFieldStart(field);
        for (Failed job : jobs) {
            out.writeStartObject();
            out.writeStringField("lease", job.lease);
            out.writeStringField("error", cut(job.error));
            if (job.retryIn != null) {
                out.writeStringField("retry_in", WireTime.text("retry_in", job.retryIn));
            }
            if (job.isDead) {
                out.writeBooleanField("dead", true);
            }
            out.writeEndObject();
        }
        out.writeEndArray();
    }

    private static String cut(String error) {
        if (error.length() <= ERROR_CHARS_MAX) {
            return error;
        }
        boolean isPair = Character.isHighSurrogate(error.charAt(ERROR_CHARS_MAX - 1));
        return error.substring(0, isPair ? ERROR_CHARS_MAX - 1 : ERROR_CHARS_MAX);
    }
}
