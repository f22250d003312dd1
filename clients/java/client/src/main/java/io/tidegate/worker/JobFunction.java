package io.tidegate.worker;

/**
 * Handles the jobs of a queue, and returns their results.
 *
 * @param <T> the type of the payload
 */
@FunctionalInterface
public interface JobFunction<T> {
    /**
     * Handles a job.
     *
     * @param payload its payload
     * @param job the job
     * @return its result: a {@link io.tidegate.Payload}, a {@code byte[]}, a value that becomes JSON, or null for none
     * @throws Exception if the attempt has failed
     */
    Object apply(T payload, Job job) throws Exception;
}
