package io.tidegate.error;

/** The server failed (5xx), or the answer is not of Tidegate. */
public final class ServerException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public ServerException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public ServerException copy() {
        return new ServerException(failure(), this);
    }
}
