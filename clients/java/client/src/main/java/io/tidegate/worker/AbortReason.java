package io.tidegate.worker;

/** Why a handler was asked to stop, by an interrupt of its thread. */
public enum AbortReason {
    /** The worker does not hold the job any more: the lease expired, or the job was revoked. The end has no effect. */
    LEASE_LOST,
    /** The producer asked to cancel the job. If the handler throws, the job is deleted; if it returns, it is done. */
    CANCEL_REQUESTED,
    /** The handler ran longer than {@code maxRun}. If it throws, the attempt has failed. */
    MAX_RUN,
    /** The worker stops, and the grace period is over. If the handler throws, the job is given back. */
    STOPPING
}
