package io.tidegate.internal;

import io.tidegate.RepeatLimits;
import io.tidegate.error.Applied;
import io.tidegate.error.TidegateException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/** A request that is sent until it succeeds, or may not be repeated any more. */
final class RepeatedCall {
    private static final System.Logger LOG = System.getLogger("io.tidegate");
    /** The least time between two warnings: an outage lets thousands of requests fail, several times each. */
    private static final long WARNING_INTERVAL_NS = 30_000_000_000L;

    private static final AtomicLong WARNED_AT = new AtomicLong(System.nanoTime() - WARNING_INTERVAL_NS);

    private final Transport transport;
    private final HttpCall call;
    private final Safety safety;
    private final Duration limit;
    private final RepeatDelays delays;
    private final Runnable afterFirst;
    private final CompletableFuture<HttpReply> result = new CompletableFuture<>();
    private TidegateException firstLost;
    private boolean isRepetition;
    private volatile Future<?> current;

    /**
     * A request.
     *
     * @param limit the most time of each attempt
     * @param afterFirst is run once, when the first attempt has ended
     */
    RepeatedCall(
            Transport transport,
            HttpCall call,
            Safety safety,
            Duration limit,
            RepeatLimits limits,
            Runnable afterFirst) {
        this.transport = transport;
        this.call = call;
        this.safety = safety;
        this.limit = limit;
        this.delays = new RepeatDelays(limits);
        this.afterFirst = afterFirst;
    }

    /** Sends the request. If the returned future is completed by somebody else, the request is cancelled. */
    CompletableFuture<HttpReply> start() {
        result.whenComplete((reply, error) -> cancelIfEnded());
        attempt();
        return result;
    }

    private void attempt() {
        CompletableFuture<HttpReply> sending = transport.exchange(call, limit);
        current = sending;
        cancelIfEnded();
        sending.whenComplete(this::answered);
    }

    private void cancelIfEnded() {
        Future<?> running = current;
        if (result.isDone() && running != null) {
            // An interrupt would hit the thread of the timer.
            running.cancel(false);
        }
    }

    private void answered(HttpReply reply, Throwable error) {
        // The next publishes are sent before the caller goes on.
        if (!isRepetition) {
            isRepetition = true;
            afterFirst.run();
        }
        if (error == null && reply.isSuccess()) {
            result.complete(reply);
        } else if (!result.isDone()) {
            failed(error == null ? Problems.of(reply) : exception(error));
        }
    }

    private void failed(TidegateException error) {
        Duration delay = safety.isRepeatedAfter(error) ? delays.nextAfter(error) : null;
        if (delay == null) {
            result.completeExceptionally(firstLost != null && hidesLostAnswer(error) ? firstLost : error);
            return;
        }
        report(error, delay);
        if (firstLost == null && error.applied() == Applied.UNKNOWN) {
            firstLost = error;
        }
        current = Timer.after(delay, this::attempt);
        cancelIfEnded();
    }

    /**
     * Whether the last error says that nothing was changed, which is not known of the attempts before it. A 404 does
     * not: that something is not there is so however it came about.
     */
    private boolean hidesLostAnswer(TidegateException last) {
        return !call.method().equals("GET") && last.applied() == Applied.NO && last.status() != 404;
    }

    private void report(TidegateException error, Duration delay) {
        long now = System.nanoTime();
        long warned = WARNED_AT.get();
        boolean isDue = now - warned >= WARNING_INTERVAL_NS && WARNED_AT.compareAndSet(warned, now);
        LOG.log(
                isDue ? Level.WARNING : Level.DEBUG,
                () -> call.method() + " " + call.path() + " failed: " + error.getMessage() + "; it is repeated in "
                        + delay.toMillis() + " ms");
    }

    private static TidegateException exception(Throwable error) {
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        if (cause instanceof TidegateException known) {
            return known;
        }
        throw new IllegalStateException("a transport failed with an unknown exception", cause);
    }
}
