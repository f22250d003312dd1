package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The outcome of a call about a lease. */
public enum LeaseOutcome {
    /** The job is done. */
    @JsonProperty("done")
    DONE,

    /** The job is delayed until its next attempt. */
    @JsonProperty("retry")
    RETRY,

    /** The job is in the dead letter. */
    @JsonProperty("dead")
    DEAD,

    /** The lease is longer. */
    @JsonProperty("extended")
    EXTENDED,

    /** The job is ready, or delayed. */
    @JsonProperty("released")
    RELEASED,

    /** The job is deleted, as its producer had requested. */
    @JsonProperty("cancelled")
    CANCELLED,

    /** The job was replaced while it ran, and runs again. */
    @JsonProperty("rerun")
    RERUN,

    /** Another worker holds the job, or it is not leased any more. Nothing was changed. */
    @JsonProperty("lost")
    LOST,

    /** There is no such job any more. A repeated ack has this outcome, too. */
    @JsonProperty("gone")
    GONE,

    /** A value that this version of the client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN;

    private static final Map<String, LeaseOutcome> BY_NAME = Arrays.stream(values())
            .collect(Collectors.toUnmodifiableMap(it -> it.name().toLowerCase(Locale.ROOT), Function.identity()));

    /**
     * The outcome with a name of the wire.
     *
     * @param name such as {@code done}
     * @return the outcome, {@link #UNKNOWN} for other names
     */
    public static LeaseOutcome of(String name) {
        return BY_NAME.getOrDefault(name, UNKNOWN);
    }
}
