package io.tidegate.error;

/** There was no answer. {@link #applied()} is {@code NO} if nothing was sent, else {@code UNKNOWN}. */
public class ConnectionException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public ConnectionException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public ConnectionException copy() {
        return new ConnectionException(failure(), this);
    }
}
