package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;

/** A change of a job that waits. Fields that are not set stay as they are. */
public final class JobChange extends WireObject<JobChange> {
    /** A change of nothing. */
    public JobChange() {}

    /**
     * A change as the server reads it.
     *
     * @param change an object with the fields of the API
     * @return the change
     */
    public static JobChange ofJson(JsonNode change) {
        return new JobChange().putAll(change);
    }

    /**
     * Makes the job due so long from now on. Excludes {@link #runAt}.
     *
     * @param delay the delay
     * @return this
     */
    public JobChange delay(Duration delay) {
        return put("delay", delay);
    }

    /**
     * Makes the job due at an instant. Excludes {@link #delay}.
     *
     * @param runAt the instant; the past means now
     * @return this
     */
    public JobChange runAt(Instant runAt) {
        return put("run_at", runAt);
    }

    /**
     * Drops the job if no worker has started it within this time after it was due.
     *
     * @param limit the time
     * @return this
     */
    public JobChange startWithin(Duration limit) {
        return put("start_within", limit);
    }

    /**
     * Sets how early the job is delivered.
     *
     * @param priority 0 to 4; 4 is first
     * @return this
     */
    public JobChange priority(int priority) {
        return put("priority", priority);
    }
}
