package io.tidegate.error;

/** The API key is missing, unknown, expired or revoked (401), or does not allow the request (403). */
public final class AuthException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public AuthException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public AuthException copy() {
        return new AuthException(failure(), this);
    }
}
