package io.tidegate.internal;

import io.tidegate.RepeatLimits;
import io.tidegate.TidegateClient;
import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.Failure;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A transport whose answers a test gives, one by one. */
public final class ScriptedTransport implements Transport {
    private final BlockingQueue<Exchange> exchanges = new LinkedBlockingQueue<>();

    /** A request that waits for the answer of the test. */
    public record Exchange(HttpCall call, CompletableFuture<HttpReply> result) {
        public void answer(int status, String body, String... headers) {
            Map<String, String> all = headers.length == 0 ? Map.of() : Map.of(headers[0], headers[1]);
            result.complete(new HttpReply(status, all::get, body.getBytes(StandardCharsets.UTF_8)));
        }

        public void problem(int status, String code, String applied) {
            answer(status, "{\"status\":%d,\"code\":\"%s\",\"detail\":\"d\",\"applied\":\"%s\"}"
                    .formatted(status, code, applied));
        }

        public void breakConnection(Applied applied) {
            result.completeExceptionally(new ConnectionException(Failure.withoutAnswer(applied, "broken"), null));
        }

        public String body() {
            return new String(call.body(), StandardCharsets.UTF_8);
        }
    }

    /** A client that uses this transport, and repeats requests without a delay. */
    public TidegateClient client() {
        RepeatLimits limits = new RepeatLimits(7, Duration.ofMillis(1), Duration.ofMillis(1));
        return TidegateClient.builder().transport(this).repeatLimits(limits).build();
    }

    /** The next request. */
    public Exchange next() throws InterruptedException {
        Exchange exchange = exchanges.poll(5, TimeUnit.SECONDS);
        if (exchange == null) {
            throw new AssertionError("there is no further request");
        }
        return exchange;
    }

    /** Whether no request is sent for a moment. */
    public boolean isQuiet() throws InterruptedException {
        Exchange exchange = exchanges.poll(100, TimeUnit.MILLISECONDS);
        return exchange == null;
    }

    @Override
    public CompletableFuture<HttpReply> exchange(HttpCall call, Duration limit) {
        Exchange exchange = new Exchange(call, new CompletableFuture<>());
        exchanges.add(exchange);
        return exchange.result;
    }

    @Override
    public void close() {}
}
