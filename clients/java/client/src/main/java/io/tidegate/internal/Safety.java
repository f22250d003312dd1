package io.tidegate.internal;

import io.tidegate.error.TidegateException;

/** Which requests are repeated after an error. */
public enum Safety {
    /** A repetition changes nothing that the request has changed already. */
    REPEATABLE,
    /** Each execution counts. */
    ONLY_IF_NOT_APPLIED;

    /** Whether a request of this kind is repeated after this error. */
    public boolean isRepeatedAfter(TidegateException error) {
        // A full queue stays full for longer than a client should wait, and 500 is a defect.
        boolean isShort = error.isTemporary() && error.status() != 429 && error.status() != 500;
        return switch (error.applied()) {
            case NO -> isShort;
            case UNKNOWN -> isShort && this == REPEATABLE;
            case YES -> false;
        };
    }
}
