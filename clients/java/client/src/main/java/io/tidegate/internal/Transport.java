package io.tidegate.internal;

import io.tidegate.error.ConnectionException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Carries requests to a server. */
public interface Transport extends AutoCloseable {
    /**
     * Sends a request once.
     *
     * @param limit the most time until the whole answer is there
     * @return the answer, whatever its status is, or a {@link ConnectionException}. If it is cancelled, the connection
     *     is closed.
     */
    CompletableFuture<HttpReply> exchange(HttpCall call, Duration limit);

    @Override
    void close();
}
