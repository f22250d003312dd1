package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.RepeatLimits;
import io.tidegate.TidegateClient;
import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class HttpTransportTest {
    private ServerSocket server;
    private TidegateClient client;

    @BeforeEach
    void listen() throws IOException {
        server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        server.setSoTimeout(20_000);
        client = client(Duration.ofSeconds(10));
    }

    private TidegateClient client(Duration timeLimit) {
        return TidegateClient.builder()
                .url("http://127.0.0.1:" + server.getLocalPort() + "/")
                .key("tg_A_B")
                .namespace("shop")
                .timeLimit(timeLimit)
                .repeatLimits(RepeatLimits.NONE)
                .build();
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        server.close();
    }

    /** Accepts a connection, and reads the head of a request. */
    private Socket accept(StringBuilder head) throws IOException {
        Socket connection = server.accept();
        connection.setSoTimeout(20_000);
        while (head.indexOf("\r\n\r\n") < 0) {
            int octet = connection.getInputStream().read();
            if (octet < 0) {
                throw new IOException("the connection is closed");
            }
            head.append((char) octet);
        }
        return connection;
    }

    private CompletableFuture<ConnectionException> failure() {
        return CompletableFuture.supplyAsync(
                () -> assertThrows(ConnectionException.class, () -> client.queue("q").show()));
    }

    private static ConnectionException join(CompletableFuture<ConnectionException> failure) throws Exception {
        return failure.get(20, TimeUnit.SECONDS);
    }

    @Test
    void aRequestHasThePathTheKeyAndTheUserAgent() throws Exception {
        StringBuilder head = new StringBuilder();
        CompletableFuture<ConnectionException> failure = failure();
        accept(head).close();
        join(failure);
        String text = head.toString();
        assertTrue(text.startsWith("GET /v1/shop/queues/q HTTP/1.1\r\n"), text);
        assertTrue(text.contains("Authorization: Bearer tg_A_B\r\n"), text);
        assertTrue(text.matches("(?s).*User-Agent: tidegate-java/\\d+\\.\\d+\\.\\d+\r\n.*"), text);
    }

    @Test
    void nothingIsAppliedWithoutAConnection() throws Exception {
        server.close();
        assertEquals(Applied.NO, join(failure()).applied());
    }

    @Test
    void aBrokenConnectionLeavesItUnknown() throws Exception {
        CompletableFuture<ConnectionException> failure = failure();
        accept(new StringBuilder()).close();
        assertEquals(Applied.UNKNOWN, join(failure).applied());
    }

    @Test
    void theTimeLimitIncludesTheBody() throws Exception {
        client = client(Duration.ofSeconds(1));
        CompletableFuture<ConnectionException> failure = failure();
        Socket connection = accept(new StringBuilder());
        String begin = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
        connection.getOutputStream().write(begin.getBytes(StandardCharsets.US_ASCII));
        ConnectionException error = join(failure);
        assertEquals(Applied.UNKNOWN, error.applied());
        assertEquals("no answer within 1000 ms", error.detail());
        assertEquals(-1, connection.getInputStream().read());
    }

    @Test
    void aCancelledRequestClosesItsConnection() throws Exception {
        HttpCall call = HttpCall.get("/x").waiting(Duration.ofSeconds(20));
        CompletableFuture<HttpReply> reply = client.core().sendOnce(call);
        Socket connection = accept(new StringBuilder());
        reply.cancel(true);
        assertEquals(-1, connection.getInputStream().read());
    }
}
