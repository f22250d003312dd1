package io.tidegate.worker;

/** No attempt can succeed: the job goes to the dead letter. A respawn brings it back. */
public final class Dead extends Fail {
    /**
     * A failure.
     *
     * @param error the cause, for people; a text of more than 1,024 bytes is cut
     */
    public Dead(String error) {
        super(error, null);
    }

    /**
     * A failure by an exception.
     *
     * @param error the cause
     */
    public Dead(Throwable error) {
        super(text(error), error);
    }
}
