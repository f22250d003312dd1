package io.tidegate.internal;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.tidegate.RepeatLimits;
import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.Failure;
import io.tidegate.error.InterruptedRequestException;
import io.tidegate.error.TidegateException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Supplier;

/** The parts of a client that its handles and workers share. */
public final class ClientCore {
    private final Transport transport;
    private final RepeatLimits limits;
    private final Duration timeLimit;
    private final ObjectMapper mapper;
    private final Supplier<String> traceParent;

    /**
     * The parts of a client.
     *
     * @param timeLimit the most time of each attempt of a request, besides its wait
     * @param mapper the mapper of payloads and results
     * @param traceParent returns the trace parent of the running span, or null
     */
    public ClientCore(
            Transport transport,
            RepeatLimits limits,
            Duration timeLimit,
            ObjectMapper mapper,
            Supplier<String> traceParent) {
        this.transport = transport;
        this.limits = limits;
        this.timeLimit = timeLimit;
        this.mapper = mapper;
        this.traceParent = traceParent;
    }

    /** The mapper of payloads and results. */
    public ObjectMapper mapper() {
        return mapper;
    }

    /** The most time of an attempt. */
    public Duration timeLimit() {
        return timeLimit;
    }

    /** The trace parent of the running span, or null. */
    public String traceParent() {
        return traceParent.get();
    }

    /** Sends a request, and repeats it as its safety allows. */
    public CompletableFuture<HttpReply> send(HttpCall call, Safety safety) {
        return send(call, safety, () -> {});
    }

    /** Sends a request, and repeats it as its safety allows. {@code afterFirst} is run after the first attempt. */
    public CompletableFuture<HttpReply> send(HttpCall call, Safety safety, Runnable afterFirst) {
        Duration limit = timeLimit.plus(call.serverWait());
        return new RepeatedCall(transport, call, safety, limit, limits, afterFirst).start();
    }

    /** Sends a request once. An answer that is no success is an exception. */
    public CompletableFuture<HttpReply> sendOnce(HttpCall call) {
        return sendOnce(call, timeLimit.plus(call.serverWait()));
    }

    /** Sends a request once, with a time limit of its own. */
    public CompletableFuture<HttpReply> sendOnce(HttpCall call, Duration limit) {
        CompletableFuture<HttpReply> sending = transport.exchange(call, limit);
        CompletableFuture<HttpReply> result = sending.thenApply(ClientCore::success);
        result.whenComplete((reply, error) -> {
            if (result.isCancelled()) {
                sending.cancel(true);
            }
        });
        return result;
    }

    private static HttpReply success(HttpReply reply) {
        if (!reply.isSuccess()) {
            throw Problems.of(reply);
        }
        return reply;
    }

    /** Sends a request that is safe to repeat, and waits for its answer. */
    public HttpReply call(HttpCall call) {
        return call(call, Safety.REPEATABLE);
    }

    /** Sends a request, repeats it as its safety allows, and waits for its answer. */
    public HttpReply call(HttpCall call, Safety safety) {
        return await(send(call, safety));
    }

    /** Sends a request, and waits so long for its answer, with all repetitions. */
    public HttpReply callWithin(HttpCall call, Safety safety, Duration limit) {
        CompletableFuture<HttpReply> answer = send(call, safety);
        Future<?> timeout = Timer.after(limit, () -> {
            String detail = "no answer within " + limit.toMillis() + " ms";
            Failure failure = Failure.withoutAnswer(Applied.UNKNOWN, detail);
            answer.completeExceptionally(new ConnectionException(failure, null));
        });
        try {
            return await(answer);
        } finally {
            timeout.cancel(false);
        }
    }

    /**
     * Waits for an answer. If the thread is interrupted the request is cancelled.
     *
     * @throws TidegateException the failure of the request, with the stack trace of this thread
     */
    public static <T> T await(CompletableFuture<T> answer) {
        try {
            return answer.get();
        } catch (InterruptedException interrupted) {
            answer.cancel(true);
            Thread.currentThread().interrupt();
            Failure failure = Failure.withoutAnswer(Applied.UNKNOWN, "interrupted while waiting for the answer");
            throw new InterruptedRequestException(failure, interrupted);
        } catch (ExecutionException error) {
            throw thrown(error.getCause());
        }
    }

    private static RuntimeException thrown(Throwable cause) {
        if (cause instanceof TidegateException failure) {
            return failure.copy();
        }
        if (cause instanceof RuntimeException unexpected) {
            return unexpected;
        }
        return new IllegalStateException(cause);
    }

    /** The exception of a future that has failed. */
    public static TidegateException failure(Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (cause instanceof TidegateException failure) {
            return failure;
        }
        Failure failure = Failure.withoutAnswer(Applied.UNKNOWN, String.valueOf(cause));
        return new ConnectionException(failure, cause);
    }

    /** Closes the connections. */
    public void close() {
        transport.close();
    }
}
