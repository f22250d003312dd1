package io.tidegate.worker;

/**
 * Handles the jobs of a queue. If it returns, the job is done. If it throws, the attempt has failed: {@link Fail} says
 * how the job goes on.
 *
 * @param <T> the type of the payload
 */
@FunctionalInterface
public interface JobHandler<T> {
    /**
     * Handles a job.
     *
     * @param payload its payload
     * @param job the job
     * @throws Exception if the attempt has failed
     */
    void handle(T payload, Job job) throws Exception;
}
