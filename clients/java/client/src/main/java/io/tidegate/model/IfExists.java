package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/** The effect of a publish on a job that has its key. */
public enum IfExists {
    /** The job stays as it is. */
    @JsonProperty("keep")
    KEEP,

    /** It gets the new content, options and time. */
    @JsonProperty("replace")
    REPLACE,

    /** The publish is a conflict, {@code key_taken}. */
    @JsonProperty("reject")
    REJECT
}
