package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateClient;
import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.InterruptedRequestException;
import io.tidegate.error.ServerException;
import io.tidegate.error.TidegateException;
import io.tidegate.model.PublishedJob;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

class RepeatedCallTest {
    private static final String CREATED = "{\"id\":\"1\",\"queue\":\"q\",\"outcome\":\"created\",\"state\":\"ready\"}";

    private final ScriptedTransport transport = new ScriptedTransport();
    private final TidegateClient client = transport.client();

    private static TidegateException failure(CompletableFuture<?> future) {
        return (TidegateException) assertThrows(CompletionException.class, future::join).getCause();
    }

    @Test
    void aPublishThatIsSafeIsRepeatedWithItsIdempotencyKey() throws Exception {
        CompletableFuture<PublishedJob> job = client.publish("q", 1).sendAsync();
        ScriptedTransport.Exchange first = transport.next();
        first.breakConnection(Applied.UNKNOWN);
        ScriptedTransport.Exchange second = transport.next();
        assertEquals(first.call().headers().get("Idempotency-Key"), second.call().headers().get("Idempotency-Key"));
        second.problem(503, "storage_unavailable", "unknown");
        transport.next().answer(201, CREATED);
        assertEquals("1", job.join().id());
    }

    @Test
    void aPublishThatIsNotIdempotentIsRepeatedOnlyIfItWasNotApplied() throws Exception {
        CompletableFuture<PublishedJob> job = client.publish("q", 1).idempotent(false).sendAsync();
        ScriptedTransport.Exchange first = transport.next();
        assertEquals(null, first.call().headers().get("Idempotency-Key"));
        first.breakConnection(Applied.NO);
        transport.next().breakConnection(Applied.UNKNOWN);
        assertEquals(Applied.UNKNOWN, failure(job).applied());
    }

    @Test
    void status429And500AreReturned() throws Exception {
        for (int status : new int[] {429, 500}) {
            CompletableFuture<PublishedJob> job = client.publish("q", 1).sendAsync();
            transport.next().problem(status, "code", "no");
            assertEquals(status, failure(job).status());
        }
        assertTrue(transport.isQuiet());
    }

    @Test
    void sevenRepetitionsAreTheMost() throws Exception {
        CompletableFuture<PublishedJob> job = client.publish("q", 1).sendAsync();
        for (int attempt = 0; attempt < 8; attempt++) {
            transport.next().breakConnection(Applied.NO);
        }
        assertEquals(ConnectionException.class, failure(job).getClass());
        assertTrue(transport.isQuiet());
    }

    @Test
    void anErrorOfTheLastRepetitionDoesNotHideALostAnswer() throws Exception {
        CompletableFuture<PublishedJob> job = client.publish("q", 1).key("k").sendAsync();
        transport.next().breakConnection(Applied.UNKNOWN);
        transport.next().problem(409, "queue_closed", "no");
        assertEquals(Applied.UNKNOWN, failure(job).applied());
    }

    @Test
    void aRetryAfterThatIsTooLongIsReturned() throws Exception {
        CompletableFuture<PublishedJob> job = client.publish("q", 1).sendAsync();
        transport.next().answer(503, "{\"code\":\"storage_unavailable\",\"applied\":\"no\"}", "Retry-After", "31");
        assertEquals(ServerException.class, failure(job).getClass());
    }

    @Test
    void anInterruptEndsTheRequest() throws Exception {
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();
        Thread caller = new Thread(() -> {
            Throwable error = assertThrows(TidegateException.class, () -> client.queue("q").show());
            thrown.complete(Thread.currentThread().isInterrupted() ? error : null);
        });
        caller.start();
        ScriptedTransport.Exchange exchange = transport.next();
        caller.interrupt();
        assertEquals(InterruptedRequestException.class, thrown.join().getClass());
        assertTrue(exchange.result().isCancelled());
    }
}
