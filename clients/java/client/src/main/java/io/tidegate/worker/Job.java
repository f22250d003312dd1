package io.tidegate.worker;

import io.tidegate.Payload;
import io.tidegate.model.LeasedJob;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * A job that this worker runs.
 *
 * <p>When the handler should stop, its thread is interrupted, and {@link #abortReason} says why. A handler that
 * computes for long asks {@link #isAborted} from time to time.
 */
public final class Job {
    private final LeasedJob leased;
    private final Object lock = new Object();
    /** The thread of the handler while it runs. */
    private Thread runner;

    private volatile AbortReason abortReason;

    Job(LeasedJob leased) {
        this.leased = leased;
    }

    /**
     * The id.
     *
     * @return the id
     */
    public String id() {
        return leased.id();
    }

    /**
     * The queue.
     *
     * @return its name
     */
    public String queue() {
        return leased.queue();
    }

    /**
     * The key.
     *
     * @return empty if it has none
     */
    public Optional<String> key() {
        return Optional.ofNullable(leased.key());
    }

    /**
     * The group.
     *
     * @return empty if it has none
     */
    public Optional<String> group() {
        return Optional.ofNullable(leased.group());
    }

    /**
     * The number of this attempt. It only grows: together with the id it is a fencing token.
     *
     * @return 1 or more
     */
    public int attempt() {
        return leased.attempt();
    }

    /**
     * How many attempts have failed.
     *
     * @return 0 or more
     */
    public int failures() {
        return leased.failures();
    }

    /**
     * How many attempts have lost their worker.
     *
     * @return 0 or more
     */
    public int losses() {
        return leased.losses();
    }

    /**
     * When it was due.
     *
     * @return the instant
     */
    public Instant runAt() {
        return leased.runAt();
    }

    /**
     * When it was published.
     *
     * @return the instant
     */
    public Instant createdAt() {
        return leased.createdAt();
    }

    /**
     * The attributes.
     *
     * @return names and values
     */
    public Map<String, String> attributes() {
        return leased.attributes();
    }

    /**
     * The payload.
     *
     * @return the payload
     */
    public Payload payload() {
        return leased.payload();
    }

    /**
     * The span of this delivery (W3C Trace Context), in whose context the handler runs.
     *
     * @return empty if the server does not trace it
     */
    public Optional<String> traceParent() {
        return Optional.ofNullable(leased.traceParent());
    }

    /**
     * Whether the handler should stop.
     *
     * @return true once it should
     */
    public boolean isAborted() {
        return abortReason != null;
    }

    /**
     * Why the handler should stop.
     *
     * @return empty as long as it should not
     */
    public Optional<AbortReason> abortReason() {
        return Optional.ofNullable(abortReason);
    }

    String lease() {
        return leased.lease();
    }

    /** The current thread begins to run the handler. */
    void enter() {
        synchronized (lock) {
            runner = Thread.currentThread();
            if (abortReason != null) {
                runner.interrupt();
            }
        }
    }

    /** The handler has ended. An interrupt must not reach the next job of the thread. */
    void leave() {
        synchronized (lock) {
            runner = null;
            Thread.interrupted();
        }
    }

    /** Sets why the handler should stop; returns whether nothing was set before. */
    boolean markAborted(AbortReason reason) {
        synchronized (lock) {
            if (abortReason != null) {
                return false;
            }
            abortReason = reason;
            return true;
        }
    }

    /** Interrupts the handler, if it runs. */
    void interrupt() {
        synchronized (lock) {
            if (runner != null) {
                runner.interrupt();
            }
        }
    }

    /** Without the payload, which may be large or private. */
    @Override
    public String toString() {
        return "Job[" + id() + ", " + queue() + ", attempt " + attempt() + "]";
    }
}
