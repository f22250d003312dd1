package io.tidegate.error;

/** There is no such job, schedule or key (404). */
public final class NotFoundException extends TidegateException {
    /**
     * An exception with these facts.
     *
     * @param failure the facts
     * @param cause the cause, or null
     */
    public NotFoundException(Failure failure, Throwable cause) {
        super(failure, cause);
    }

    @Override
    public NotFoundException copy() {
        return new NotFoundException(failure(), this);
    }
}
