package io.tidegate.error;

/** The request is not valid (other 4xx). Without a status the client has found the mistake, and nothing was sent. */
public final class InvalidRequestException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public InvalidRequestException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public InvalidRequestException copy() {
        return new InvalidRequestException(failure(), this);
    }
}
