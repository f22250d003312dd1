package io.tidegate.worker;

import java.io.UncheckedIOException;

/**
 * The handler of a queue.
 *
 * @param type the type of the payloads
 * @param handler runs the jobs
 */
record Route<T>(Class<T> type, JobFunction<T> handler) {
    Object run(Job job) throws Exception {
        T payload;
        try {
            payload = job.payload().as(type);
        } catch (UncheckedIOException unreadable) {
            // It will not be readable at the next attempt either.
            throw new Dead(unreadable);
        }
        return handler.apply(payload, job);
    }
}
