package io.tidegate.worker;

/** Wraps all handlers of a worker, for transactions, logs or contexts. */
@FunctionalInterface
public interface Middleware {
    /** The rest of the chain. */
    @FunctionalInterface
    interface Next {
        /**
         * Runs the handler.
         *
         * @return its result, or null
         * @throws Exception if the attempt has failed
         */
        Object run() throws Exception;
    }

    /**
     * Runs around a handler, in its thread.
     *
     * @param job the job
     * @param next runs the handler
     * @return the result of the job, or null
     * @throws Exception if the attempt has failed
     */
    Object handle(Job job, Next next) throws Exception;
}
