package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;

/** The outcome of a publish. */
public enum PublishOutcome {
    /** The job is new. */
    @JsonProperty("created")
    CREATED,

    /** A job has the key, and stays as it is. */
    @JsonProperty("exists")
    EXISTS,

    /** The job that has the key has the new content, options and time. */
    @JsonProperty("replaced")
    REPLACED,

    /** A worker holds the job that has the key; it runs again with the new content. */
    @JsonProperty("rerun")
    RERUN,

    /** The job that has the key was dead, and has the new content. */
    @JsonProperty("revived")
    REVIVED,

    /** A value that this version of the client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
}
