package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.JobFilter;
import io.tidegate.PolicyChange;
import io.tidegate.Retry;
import io.tidegate.TidegateClient;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.ScriptedTransport.Exchange;
import io.tidegate.model.IfExists;
import io.tidegate.model.IfRunning;
import io.tidegate.model.JobState;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class RequestsTest {
    private final ScriptedTransport transport = new ScriptedTransport();
    private final TidegateClient client = transport.client();

    private Exchange sent(Runnable request) throws InterruptedException {
        CompletableFuture.runAsync(request);
        return transport.next();
    }

    private String path(Runnable request) throws InterruptedException {
        return pathOf(sent(request));
    }

    private static String pathOf(Exchange exchange) {
        return exchange.call().method() + " " + exchange.call().path();
    }

    @Test
    void keysArePercentEncodedInThePathAndWithASlashInTheQuery() throws Exception {
        assertEquals(
                "DELETE /queues/q/jobs/key:k%C3%A4se%20%26%25?running=ask",
                path(() -> client.queue("q").jobWithKey("käse &%").cancel(IfRunning.ASK)));
        assertEquals(
                "GET /queues/q/jobs/-/explain?key=a%2Fb%3F",
                path(() -> client.queue("q").jobWithKey("a/b?").explain()));
        assertEquals(
                "DELETE /queues/q/jobs/-?key=a%2Fb&running=revoke",
                path(() -> client.queue("q").jobWithKey("a/b").cancel(IfRunning.REVOKE)));
    }

    @Test
    void optionsOfAPublishAreParameters() throws Exception {
        Exchange publish = sent(() -> client.publish("q", "x")
                .delay(Duration.ofNanos(1_500_001))
                .key("a/b &c")
                .ifExists(IfExists.REJECT)
                .retry(Retry.every(Duration.ofSeconds(5)))
                .attribute("tenant", "blue")
                .send());
        assertEquals(
                "/queues/q/jobs?delay=2ms&key=a%2Fb%20%26c&if_exists=reject&retry=%7B%22every%22%3A%225000ms%22%7D",
                publish.call().path());
        assertEquals("blue", publish.call().headers().get("Job-Attr-tenant"));
        // A repetition that finds the job of the first request must not be rejected.
        assertEquals(36, publish.call().headers().get("Idempotency-Key").length());
        assertEquals("\"x\"", publish.body());
    }

    @Test
    void aCallWaitsForUpTo20SecondsInOneRequest() throws Exception {
        Exchange call = sent(() -> client.publish("q", 1).key("k").call(Duration.ofMinutes(1)));
        assertEquals("/queues/q/jobs/call?key=k&wait=20000ms", call.call().path());
        call.answer(202, "{\"id\":\"01J\",\"state\":\"ready\"}");
        assertEquals("GET /queues/q/jobs/01J/result?wait=20000ms", pathOf(transport.next()));
    }

    @Test
    void aPublishWithAKeyNeedsNoIdempotencyKey() throws Exception {
        Exchange publish = sent(() -> client.publish("q", 1).key("k").send());
        assertEquals(null, publish.call().headers().get("Idempotency-Key"));
    }

    @Test
    void filtersAreParameters() throws Exception {
        JobFilter filter = new JobFilter()
                .state(JobState.READY)
                .dueBefore(Instant.ofEpochMilli(5))
                .attribute("a", "ü=1");
        assertEquals(
                "GET /queues/q/jobs?limit=7&state=ready&due_before=5&attribute=a%3D%C3%BC%3D1",
                path(() -> client.queue("q").jobs(filter, 7).toList()));
    }

    @Test
    void pagesAreReadUntilTheLastOne() throws Exception {
        CompletableFuture<Long> count =
                CompletableFuture.supplyAsync(() -> client.queue("q").jobs(new JobFilter()).count());
        transport.next().answer(200, "{\"items\":[{\"id\":\"1\",\"state\":\"later\"}],\"next\":\"a:1\"}");
        Exchange second = transport.next();
        assertEquals("/queues/q/jobs?limit=100&cursor=a%3A1", second.call().path());
        second.answer(200, "{\"items\":[],\"next\":null}");
        assertEquals(1, count.join());
    }

    @Test
    void aPolicyIsChangedInItsVersionOnly() throws Exception {
        Exchange change = sent(() ->
                client.queue("q").changePolicyIf(new PolicyChange().maxJobs(null).lease(Duration.ofSeconds(1)), "1.a"));
        assertEquals("\"1.a\"", change.call().headers().get("If-Match"));
        JsonNode body = Json.WIRE.readTree(change.body());
        assertEquals("{\"max_jobs\":null,\"lease\":\"1000ms\"}", body.toString());
    }

    @Test
    void mistakesAreFoundBeforeARequest() throws Exception {
        assertThrows(InvalidRequestException.class, () -> client.publish("a b", 1));
        assertThrows(InvalidRequestException.class, () -> client.queue(".."));
        assertThrows(InvalidRequestException.class, () -> client.publish("q", 1).delay(Duration.ofSeconds(-1)));
        assertThrows(InvalidRequestException.class, () -> client.publish("q", 1).attribute("a", " b"));
        assertThrows(InvalidRequestException.class, () -> client.publish("q", new Object()).send());
        assertEquals(true, transport.isQuiet());
    }
}
