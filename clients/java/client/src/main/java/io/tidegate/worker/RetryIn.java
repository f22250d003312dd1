package io.tidegate.worker;

import java.time.Duration;

/** The attempt failed. The next attempt is after a delay, unless this was the last one. */
public final class RetryIn extends Fail {
    private final Duration delay;

    /**
     * A failure.
     *
     * @param error the cause, for people; a text of more than 1,024 bytes is cut
     * @param delay the delay before the next attempt
     */
    public RetryIn(String error, Duration delay) {
        super(error, null);
        this.delay = delay;
    }

    /**
     * A failure by an exception.
     *
     * @param error the cause
     * @param delay the delay before the next attempt
     */
    public RetryIn(Throwable error, Duration delay) {
        super(text(error), error);
        this.delay = delay;
    }

    /**
     * The delay before the next attempt.
     *
     * @return the delay
     */
    public Duration delay() {
        return delay;
    }
}
