package io.tidegate.worker;

import io.tidegate.error.TidegateException;
import java.time.Duration;

/**
 * Gets the events of a worker, for logs and metrics. The methods are called by threads of the worker: they must not
 * block. What they throw is logged.
 */
public interface WorkerListener {
    /** How a run ended. */
    enum End {
        /** The handler returned: the job is acknowledged. */
        DONE,
        /** The handler failed: the job is retried, or dead after its last attempt. */
        FAILED,
        /** The job is dead. */
        DEAD,
        /** The job is given back, since the handler or a stop has asked for it. */
        RELEASED,
        /** The lease was lost before the handler ended: nothing is reported. */
        LOST
    }

    /**
     * A reserve was answered.
     *
     * @param jobs the number of jobs
     * @param took the time of the request
     */
    default void onReserved(int jobs, Duration took) {}

    /**
     * A reserve failed.
     *
     * @param error why
     * @param pause when it is repeated
     */
    default void onReserveFailed(TidegateException error, Duration pause) {}

    /**
     * A handler begins.
     *
     * @param job its job
     */
    default void onStarted(Job job) {}

    /**
     * A handler is asked to stop.
     *
     * @param job its job
     * @param reason why
     */
    default void onAborted(Job job, AbortReason reason) {}

    /**
     * A handler has ended.
     *
     * @param job its job
     * @param end how
     * @param took how long it ran
     * @param error what it threw, or null
     */
    default void onEnded(Job job, End end, Duration took, Throwable error) {}

    /**
     * The end of a job could not be reported: it runs again when its lease expires.
     *
     * @param job the job
     * @param error why, or null if another worker has the job
     */
    default void onNotReported(Job job, TidegateException error) {}
}
