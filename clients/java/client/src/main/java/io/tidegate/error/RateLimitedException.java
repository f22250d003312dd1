package io.tidegate.error;

/** The queue is full, or a limit is reached (429). The client does not repeat it: see {@link #retryAfter()}. */
public final class RateLimitedException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public RateLimitedException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public RateLimitedException copy() {
        return new RateLimitedException(failure(), this);
    }
}
