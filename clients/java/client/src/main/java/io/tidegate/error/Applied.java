package io.tidegate.error;

/** Whether a request that failed has changed something all the same. */
public enum Applied {
    /** Nothing was changed. */
    NO,
    /** The change was made. */
    YES,
    /** The answer was lost. A request that is safe to repeat may be sent again. */
    UNKNOWN
}
