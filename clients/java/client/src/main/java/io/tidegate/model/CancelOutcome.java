package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;

/** The outcome of a cancel. */
public enum CancelOutcome {
    /** The job is deleted. */
    @JsonProperty("cancelled")
    CANCELLED,

    /** A worker holds the job, and learns of the request when it extends the lease. */
    @JsonProperty("cancel_requested")
    CANCEL_REQUESTED,

    /** A worker held the job, which is deleted. */
    @JsonProperty("revoked")
    REVOKED,

    /** The job was done before, and is retained. */
    @JsonProperty("already_done")
    ALREADY_DONE,

    /** A value that this version of the client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
}
