package io.tidegate;

import io.tidegate.error.TidegateException;
import io.tidegate.model.PublishedJob;
import java.util.Optional;

/** The result of one job of a batch: the job, or why it was not published. */
public final class BatchResult {
    private final PublishedJob job;
    private final TidegateException error;

    private BatchResult(PublishedJob job, TidegateException error) {
        this.job = job;
        this.error = error;
    }

    static BatchResult of(PublishedJob job) {
        return new BatchResult(job, null);
    }

    static BatchResult of(TidegateException error) {
        return new BatchResult(null, error);
    }

    /**
     * The job.
     *
     * @return the job that was published
     * @throws TidegateException if it was not published
     */
    public PublishedJob job() {
        if (error != null) {
            throw error.copy();
        }
        return job;
    }

    /**
     * Why the job was not published, or is less durable than requested.
     *
     * @return empty if the job was published
     */
    public Optional<TidegateException> error() {
        return Optional.ofNullable(error);
    }
}
