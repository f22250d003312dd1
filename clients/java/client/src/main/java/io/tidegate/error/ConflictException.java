package io.tidegate.error;

/** The state of the server does not allow the request (409, 412, 422 {@code idempotency_key_reused}). */
public final class ConflictException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public ConflictException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public ConflictException copy() {
        return new ConflictException(failure(), this);
    }
}
