package io.tidegate.error;

import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/**
 * The facts of a request that failed.
 *
 * @param status the HTTP status, 0 if there was no answer
 * @param code the machine-readable reason of the server, such as {@code key_taken}; empty if there is none
 * @param detail the cause, for people
 * @param applied whether the change was made
 * @param field the field that is invalid, or null
 * @param retryAfter when the same request may succeed, from now on, or null
 * @param jobId the id of the job that the failure is about, or null
 */
public record Failure(
        int status, String code, String detail, Applied applied, String field, Duration retryAfter, String jobId)
        implements Serializable {

    /** Checks that the parts that are never null are not. */
    public Failure {
        Objects.requireNonNull(code, "code");
        Objects.requireNonNull(detail, "detail");
        Objects.requireNonNull(applied, "applied");
    }

    /**
     * A failure without an answer of the server.
     *
     * @param applied whether the change was made
     * @param detail the cause
     * @return the failure
     */
    public static Failure withoutAnswer(Applied applied, String detail) {
        return new Failure(0, "", detail, applied, null, null, null);
    }

    /**
     * A mistake that the client has found: nothing was sent.
     *
     * @param field the field that is invalid, or null
     * @param detail the cause
     * @return the failure
     */
    public static Failure notSent(String field, String detail) {
        return new Failure(0, "", detail, Applied.NO, field, null, null);
    }

    String message() {
        if (status == 0) {
            return field == null ? detail : field + ": " + detail;
        }
        return code.isEmpty() ? status + ": " + detail : status + " " + code + ": " + detail;
    }
}
