package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Timer;
import java.time.Duration;

/** A wait for the result of a job, which takes several requests if it is long. */
final class ResultWait {
    /** How much later than its wait a request may end: the server answers at the end of the wait. */
    static final Duration MARGIN = Duration.ofSeconds(2);
    /** Proxies close connections that are silent for longer. */
    private static final Duration REQUEST_MAX = Duration.ofSeconds(20);

    private static final Duration WAIT_MAX = Duration.ofDays(365);

    private final long deadline;

    ResultWait(Duration wait) {
        Duration limited = wait.compareTo(WAIT_MAX) > 0 ? WAIT_MAX : wait;
        this.deadline = System.nanoTime() + Timer.nanos(limited);
    }

    Duration left() {
        return Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
    }

    boolean isOver() {
        return left().isZero();
    }

    /** The wait of the next request. */
    Duration ofRequest() {
        Duration left = left();
        return left.compareTo(REQUEST_MAX) > 0 ? REQUEST_MAX : left;
    }

    /** The result in an answer: 200 with it, 204 without one, and else the job, which is not done yet. */
    static JobResult result(ClientCore core, HttpReply reply) {
        String jobId = reply.header("Tidegate-Job-Id");
        if (reply.status() == 204) {
            return JobResult.done(jobId, null);
        }
        if (reply.status() == 200 && jobId != null) {
            String type = reply.header("Content-Type");
            String known = type == null ? "application/octet-stream" : type;
            return JobResult.done(jobId, Payload.bytes(reply.body(), known, core.mapper()));
        }
        return JobResult.pending(reply.json(JsonNode.class).path("id").asText());
    }
}
