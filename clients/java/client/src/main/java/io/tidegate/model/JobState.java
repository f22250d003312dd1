package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;

/** The state of a job. */
public enum JobState {
    /** It is not due yet. */
    @JsonProperty("delayed")
    DELAYED,

    /** It waits for a worker. */
    @JsonProperty("ready")
    READY,

    /** A worker holds it. */
    @JsonProperty("leased")
    LEASED,

    /** It is in the dead letter. */
    @JsonProperty("dead")
    DEAD,

    /** It is done, and kept with its key and result. */
    @JsonProperty("done")
    DONE,

    /** A value that this version of the client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
}
