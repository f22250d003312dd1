package io.tidegate.worker;

/** What a handler throws to decide the fate of its job. Any other exception is retried by the policy of the queue. */
public abstract sealed class Fail extends RuntimeException permits RetryIn, Dead, Snooze {
    Fail(String error, Throwable cause) {
        super(error, cause);
    }

    static String text(Throwable error) {
        return error.getMessage() != null ? error.getMessage() : error.getClass().getName();
    }
}
