package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/** The effect of a cancel on a job that a worker holds. */
public enum IfRunning {
    /** None: the cancel is a conflict, {@code job_running}. */
    @JsonProperty("refuse")
    REFUSE,

    /** The worker is asked to stop. If it fails, releases or loses the job, the job is deleted. */
    @JsonProperty("ask")
    ASK,

    /** The job is deleted; the ack of the worker will have no effect. */
    @JsonProperty("revoke")
    REVOKE
}
