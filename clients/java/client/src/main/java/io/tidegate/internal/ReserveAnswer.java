package io.tidegate.internal;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.tidegate.Payload;
import io.tidegate.model.LeaseOutcome;
import io.tidegate.model.LeasedJob;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The answer to a reserve. Payloads of JSON are cut out of it as bytes, without being read.
 *
 * @param jobs the jobs
 * @param acked the outcomes of the acks of the request
 * @param failed the outcomes of the failures of the request
 */
public record ReserveAnswer(List<LeasedJob> jobs, List<LeaseOutcome> acked, List<LeaseOutcome> failed) {
    /**
     * Reads an answer.
     *
     * @param mapper reads the payloads later
     * @throws io.tidegate.error.ConnectionException if it cannot be read
     */
    public static ReserveAnswer read(byte[] body, ObjectMapper mapper) {
        try (JsonParser in = Json.WIRE.createParser(body)) {
            return new Reader(body, mapper, in).answer();
        } catch (IOException error) {
            throw Json.unreadable(error);
        }
    }

    private record Reader(byte[] body, ObjectMapper mapper, JsonParser in) {
        ReserveAnswer answer() throws IOException {
            Instant now = null;
            List<Fields> jobs = new ArrayList<>();
            List<LeaseOutcome> acked = List.of();
            List<LeaseOutcome> failed = List.of();
            expect(in.nextToken(), JsonToken.START_OBJECT);
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                in.nextToken();
                switch (name) {
                    case "now" -> now = instant();
                    case "jobs" -> readJobs(jobs);
                    case "settled" -> {
                        while (in.nextToken() == JsonToken.FIELD_NAME) {
                            boolean isAck = in.currentName().equals("ack");
                            List<LeaseOutcome> outcomes = outcomes();
                            acked = isAck ? outcomes : acked;
                            failed = isAck ? failed : outcomes;
                        }
                    }
                    default -> in.skipChildren();
                }
            }
            Instant answered = now == null ? Instant.now() : now;
            return new ReserveAnswer(jobs.stream().map(it -> it.job(answered, mapper)).toList(), acked, failed);
        }

        private void readJobs(List<Fields> jobs) throws IOException {
            expect(in.currentToken(), JsonToken.START_ARRAY);
            while (in.nextToken() == JsonToken.START_OBJECT) {
                jobs.add(job());
            }
        }

        private List<LeaseOutcome> outcomes() throws IOException {
            List<LeaseOutcome> outcomes = new ArrayList<>();
            expect(in.nextToken(), JsonToken.START_ARRAY);
            while (in.nextToken() == JsonToken.START_OBJECT) {
                LeaseOutcome outcome = LeaseOutcome.UNKNOWN;
                while (in.nextToken() == JsonToken.FIELD_NAME) {
                    boolean isOutcome = in.currentName().equals("outcome");
                    in.nextToken();
                    outcome = isOutcome ? LeaseOutcome.of(in.getText()) : outcome;
                    in.skipChildren();
                }
                outcomes.add(outcome);
            }
            return outcomes;
        }

        private Fields job() throws IOException {
            Fields job = new Fields();
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                in.nextToken();
                switch (name) {
                    case "id" -> job.id = in.getText();
                    case "queue" -> job.queue = in.getText();
                    case "lease" -> job.lease = in.getText();
                    case "lease_until" -> job.leaseUntil = instant();
                    case "attempt" -> job.attempt = in.getIntValue();
                    case "failures" -> job.failures = in.getIntValue();
                    case "losses" -> job.losses = in.getIntValue();
                    case "run_at" -> job.runAt = instant();
                    case "created_at" -> job.createdAt = instant();
                    case "key" -> job.key = in.getValueAsString();
                    case "group" -> job.group = in.getValueAsString();
                    case "traceparent" -> job.traceParent = in.getValueAsString();
                    case "content_type" -> job.contentType = in.getText();
                    case "attributes" -> job.attributes = attributes();
                    case "payload" -> job.payload = raw();
                    case "payload_base64" -> job.payload = bytes(job.payload);
                    default -> in.skipChildren();
                }
            }
            return job;
        }

        private Instant instant() throws IOException {
            return WireTime.instant(in.getText());
        }

        private Map<String, String> attributes() throws IOException {
            Map<String, String> attributes = new HashMap<>();
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                attributes.put(in.currentName(), in.nextTextValue());
            }
            return attributes;
        }

        private byte[] bytes(byte[] before) throws IOException {
            return in.currentToken() == JsonToken.VALUE_NULL ? before : in.getBinaryValue();
        }

        /** The bytes of the value, as they were sent. */
        private byte[] raw() throws IOException {
            int begin = (int) in.currentTokenLocation().getByteOffset();
            if (in.currentToken().isStructStart()) {
                in.skipChildren();
            } else {
                in.finishToken();
            }
            int end = (int) in.currentLocation().getByteOffset();
            return Arrays.copyOfRange(body, begin, end);
        }

        private static void expect(JsonToken token, JsonToken expected) throws IOException {
            if (token != expected) {
                throw new IOException("there is " + token + " instead of " + expected);
            }
        }
    }

    /** The fields of a job while it is read. */
    private static final class Fields {
        private String id;
        private String queue;
        private String lease;
        private Instant leaseUntil;
        private int attempt;
        private int failures;
        private int losses;
        private Instant runAt;
        private Instant createdAt;
        private String key;
        private String group;
        private String traceParent;
        private String contentType = "application/octet-stream";
        private Map<String, String> attributes = Map.of();
        private byte[] payload = {};

        LeasedJob job(Instant now, ObjectMapper mapper) {
            Duration length = Duration.between(now, leaseUntil);
            Payload content = Payload.bytes(payload, contentType, mapper);
            return new LeasedJob(
                    id, queue, lease, length, attempt, failures, losses, runAt, createdAt, key, group, attributes,
                    content, traceParent);
        }
    }
}
