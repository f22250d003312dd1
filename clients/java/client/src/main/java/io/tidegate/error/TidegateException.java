package io.tidegate.error;

import java.time.Duration;
import java.util.Optional;

/**
 * A request failed. The subclass follows the code of the server:
 *
 * <table>
 * <caption>Subclasses</caption>
 * <tr><th>class</th><th>status</th></tr>
 * <tr><td>{@link AuthException}</td><td>401, 403</td></tr>
 * <tr><td>{@link NotFoundException}</td><td>404</td></tr>
 * <tr><td>{@link ConflictException}</td><td>409, 412, and 422 {@code idempotency_key_reused}</td></tr>
 * <tr><td>{@link RateLimitedException}</td><td>429</td></tr>
 * <tr><td>{@link InvalidRequestException}</td><td>other 4xx, and mistakes that the client finds</td></tr>
 * <tr><td>{@link ServerException}</td><td>5xx, and answers that are not of Tidegate</td></tr>
 * <tr><td>{@link ConnectionException}</td><td>no answer</td></tr>
 * </table>
 */
public abstract class TidegateException extends RuntimeException {
    private final Failure failure;

    TidegateException(Failure failure, Throwable cause) {
        super(failure.message(), cause);
        this.failure = failure;
    }

    /**
     * All facts.
     *
     * @return the failure
     */
    public Failure failure() {
        return failure;
    }

    /**
     * The HTTP status.
     *
     * @return 400 to 599, or 0 if there was no answer
     */
    public int status() {
        return failure.status();
    }

    /**
     * The machine-readable reason.
     *
     * @return a code such as {@code key_taken}, or an empty text
     */
    public String code() {
        return failure.code();
    }

    /**
     * The cause in this request, for people.
     *
     * @return a text
     */
    public String detail() {
        return failure.detail();
    }

    /**
     * Whether the request has changed something all the same.
     *
     * @return never null
     */
    public Applied applied() {
        return failure.applied();
    }

    /**
     * The field that is invalid, such as {@code jobs[3].delay}.
     *
     * @return empty if no field is
     */
    public Optional<String> field() {
        return Optional.ofNullable(failure.field());
    }

    /**
     * When the same request may succeed, from now on.
     *
     * @return empty if the server did not say
     */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(failure.retryAfter());
    }

    /**
     * The job that the failure is about: of 504 {@code not_durable} the job that is stored.
     *
     * @return empty if the server named none
     */
    public Optional<String> jobId() {
        return Optional.ofNullable(failure.jobId());
    }

    /**
     * Whether the same request may succeed later: the server or the connection to it failed, not the request.
     *
     * @return true without an answer, and for 408, 429, 500, 502, 503 and 504
     */
    public boolean isTemporary() {
        return switch (status()) {
            case 408, 429, 500, 502, 503, 504 -> true;
            default -> this instanceof ConnectionException;
        };
    }

    /**
     * The exception for a failure with an answer of the server.
     *
     * @param failure the facts
     * @param cause the cause, or null
     * @return an exception of the class that follows from the status
     */
    public static TidegateException of(Failure failure, Throwable cause) {
        int status = failure.status();
        return switch (status) {
            case 401, 403 -> new AuthException(failure, cause);
            case 404 -> new NotFoundException(failure, cause);
            case 409, 412 -> new ConflictException(failure, cause);
            case 429 -> new RateLimitedException(failure, cause);
            default -> ofOtherStatus(failure, cause);
        };
    }

    private static TidegateException ofOtherStatus(Failure failure, Throwable cause) {
        if (failure.code().equals("idempotency_key_reused")) {
            return new ConflictException(failure, cause);
        }
        boolean isRequest = failure.status() >= 400 && failure.status() < 500;
        return isRequest ? new InvalidRequestException(failure, cause) : new ServerException(failure, cause);
    }

    /**
     * A copy with the stack trace of the caller. The original, whose stack trace is of a thread of the client, is its
     * cause.
     *
     * @return an exception of the same class
     */
    public abstract TidegateException copy();
}
