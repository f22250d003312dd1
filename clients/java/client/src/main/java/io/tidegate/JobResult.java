package io.tidegate;

import java.util.Optional;

/** The result of a job, or the fact that it is not there yet. */
public final class JobResult {
    private final String jobId;
    private final boolean isPending;
    private final Payload payload;

    private JobResult(String jobId, boolean isPending, Payload payload) {
        this.jobId = jobId;
        this.isPending = isPending;
        this.payload = payload;
    }

    static JobResult pending(String jobId) {
        return new JobResult(jobId, true, null);
    }

    static JobResult done(String jobId, Payload payload) {
        return new JobResult(jobId, false, payload);
    }

    /**
     * The id of the job, by which {@code client.queue(name).job(id).result(wait)} asks again.
     *
     * @return the id
     */
    public String jobId() {
        return jobId;
    }

    /**
     * Whether the job was not done in time. It stays in its queue: cancel it if it is not needed any more.
     *
     * @return false if it is done
     */
    public boolean isPending() {
        return isPending;
    }

    /**
     * The result.
     *
     * @return empty if the job is pending, or is done without a result
     */
    public Optional<Payload> payload() {
        return Optional.ofNullable(payload);
    }

    /**
     * Reads the result as a value of a type.
     *
     * @param type the type
     * @param <T> the type
     * @return the value, or null if the job is done without a result
     * @throws IllegalStateException if the job is pending
     * @throws java.io.UncheckedIOException if the result is not of this type
     */
    public <T> T as(Class<T> type) {
        if (isPending) {
            throw new IllegalStateException("the job " + jobId + " is not done yet: ask isPending() first");
        }
        return payload == null ? null : payload.as(type);
    }
}
