package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/** The jobs that a purge deletes. */
public enum PurgeState {
    /** The ready jobs. */
    @JsonProperty("ready")
    READY,

    /** The dead jobs. */
    @JsonProperty("dead")
    DEAD
}
