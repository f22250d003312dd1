package io.tidegate.internal;

import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import javax.net.ssl.SSLHandshakeException;

/** Requests over the HTTP client of the JDK, which keeps connections open. */
public final class HttpTransport implements Transport {
    private static final String USER_AGENT = "tidegate-java/" + version();

    private final HttpClient http;
    private final boolean isOwned;
    private final String base;
    private final String authorization;

    /**
     * A transport to the namespace of a server.
     *
     * @param http the client of the user, or null for a new one
     * @param base the URL up to the namespace
     */
    public HttpTransport(HttpClient http, String base, String key, Duration connectLimit) {
        this.http = http != null ? http : newClient(connectLimit);
        this.isOwned = http == null;
        this.base = base;
        this.authorization = "Bearer " + key;
    }

    private static HttpClient newClient(Duration connectLimit) {
        // With HTTP/1.1 a cancelled request closes its connection, by which the server knows that a worker has gone.
        return HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(connectLimit)
                .build();
    }

    @Override
    public CompletableFuture<HttpReply> exchange(HttpCall call, Duration limit) {
        HttpRequest request;
        try {
            request = request(call);
        } catch (IllegalArgumentException error) {
            Failure failure = Failure.notSent(null, "the request cannot be sent: " + error.getMessage());
            return CompletableFuture.failedFuture(new InvalidRequestException(failure, error));
        }
        return limited(http.sendAsync(request, BodyHandlers.ofByteArray()), limit);
    }

    private HttpRequest request(HttpCall call) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + call.path()))
                .header("Authorization", authorization)
                .header("User-Agent", USER_AGENT);
        call.headers().forEach(request::header);
        BodyPublisher body = call.body() == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(call.body());
        return request.method(call.method(), body).build();
    }

    /** The time limit of {@code HttpRequest} ends with the headers of an answer; this one includes the body. */
    private static CompletableFuture<HttpReply> limited(
            CompletableFuture<HttpResponse<byte[]>> sending, Duration limit) {
        CompletableFuture<HttpReply> result = new CompletableFuture<>();
        Future<?> timeout = Timer.after(limit, () -> {
            String detail = "no answer within " + limit.toMillis() + " ms";
            Failure failure = Failure.withoutAnswer(Applied.UNKNOWN, detail);
            if (result.completeExceptionally(new ConnectionException(failure, null))) {
                sending.cancel(true);
            }
        });
        sending.whenComplete((response, error) -> {
            timeout.cancel(false);
            if (error == null) {
                result.complete(reply(response));
            } else {
                result.completeExceptionally(connectionError(error));
            }
        });
        result.whenComplete((reply, error) -> {
            if (result.isCancelled()) {
                timeout.cancel(false);
                sending.cancel(true);
            }
        });
        return result;
    }

    private static HttpReply reply(HttpResponse<byte[]> response) {
        return new HttpReply(
                response.statusCode(),
                name -> response.headers().firstValue(name).orElse(null),
                response.body());
    }

    private static ConnectionException connectionError(Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (isNotConnected(cause)) {
            String detail = "failed to connect to the server: " + text(cause);
            return new ConnectionException(Failure.withoutAnswer(Applied.NO, detail), cause);
        }
        String detail = "the connection to the server broke: " + text(cause);
        return new ConnectionException(Failure.withoutAnswer(Applied.UNKNOWN, detail), cause);
    }

    private static boolean isNotConnected(Throwable error) {
        return error instanceof ConnectException
                || error instanceof HttpConnectTimeoutException
                || error instanceof SSLHandshakeException;
    }

    private static String text(Throwable error) {
        return error.getMessage() != null ? error.getMessage() : error.getClass().getSimpleName();
    }

    private static String version() {
        Properties properties = new Properties();
        try (var in = HttpTransport.class.getResourceAsStream("client.properties")) {
            if (in != null) {
                properties.load(in);
            }
        } catch (IOException unreadable) {
            return "unknown";
        }
        return properties.getProperty("version", "unknown");
    }

    /** Closes the connections at once where the JDK can (21); before that they are closed when they are idle. */
    @Override
    public void close() {
        if (!isOwned) {
            return;
        }
        try {
            Method shutdown = HttpClient.class.getMethod("shutdownNow");
            shutdown.invoke(http);
        } catch (ReflectiveOperationException olderJdk) {
            // The threads of the client end when it is not reachable any more.
        }
    }
}
