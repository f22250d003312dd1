package io.tidegate.error;

/** The thread was interrupted while it waited for the answer. Its interrupt status is set again. */
public final class InterruptedRequestException extends ConnectionException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public InterruptedRequestException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public InterruptedRequestException copy() {
        return new InterruptedRequestException(failure(), this);
    }
}
