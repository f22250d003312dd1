package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.TidegateClient;
import io.tidegate.error.Applied;
import io.tidegate.error.ConflictException;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.ScriptedTransport.Exchange;
import io.tidegate.model.PublishedJob;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

class PublishGathererTest {
    private final ScriptedTransport transport = new ScriptedTransport();
    private final TidegateClient client = transport.client();

    private static String created(int id) {
        return "{\"id\":\"%d\",\"queue\":\"q\",\"outcome\":\"created\",\"state\":\"ready\"}".formatted(id);
    }

    private static String conflict() {
        return "{\"problem\":{\"status\":409,\"code\":\"key_taken\",\"detail\":\"d\",\"applied\":\"no\"}}";
    }

    private static JsonNode jobs(Exchange batch) throws IOException {
        assertEquals("/queues/q/jobs/batch", batch.call().path());
        return Json.WIRE.readTree(batch.body()).path("jobs");
    }

    private List<CompletableFuture<PublishedJob>> publish(int count) {
        List<CompletableFuture<PublishedJob>> jobs = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            jobs.add(client.publish("q", number).sendAsync());
        }
        return jobs;
    }

    private static <E extends Throwable> E failure(Class<E> type, CompletableFuture<?> job) {
        return type.cast(assertThrows(CompletionException.class, job::join).getCause());
    }

    @Test
    void publishesThatMeetAreSentTogetherAndEachHasItsResult() throws Exception {
        List<CompletableFuture<PublishedJob>> jobs = publish(4);
        Exchange first = transport.next();
        assertEquals("/queues/q/jobs", first.call().path());
        assertTrue(transport.isQuiet());
        first.answer(201, created(0));
        Exchange batch = transport.next();
        assertEquals(3, jobs(batch).size());
        assertEquals(1, jobs(batch).get(0).path("payload").asInt());
        assertTrue(jobs(batch).get(0).has("idempotency_key"));
        batch.answer(200, "{\"results\":[" + created(1) + "," + conflict() + "," + created(3) + "]}");
        assertEquals("1", jobs.get(1).join().id());
        assertEquals("key_taken", failure(ConflictException.class, jobs.get(2)).code());
        assertEquals("3", jobs.get(3).join().id());
        assertTrue(transport.isQuiet());
    }

    @Test
    void aBatchHasUpTo100Jobs() throws Exception {
        publish(142);
        transport.next().answer(201, created(0));
        Exchange batch = transport.next();
        assertEquals(100, jobs(batch).size());
        batch.answer(200, "{\"results\":[" + (created(1) + ",").repeat(99) + created(1) + "]}");
        assertEquals(41, jobs(transport.next()).size());
    }

    @Test
    void aBatchHasUpTo1MiB() throws Exception {
        publish(1);
        String large = "x".repeat(400_000);
        for (int number = 0; number < 3; number++) {
            client.publish("q", large).sendAsync();
        }
        transport.next().answer(201, created(0));
        assertEquals(2, jobs(transport.next()).size());
    }

    @Test
    void queuesDoNotWaitForEachOther() throws Exception {
        client.publish("q", 1).sendAsync();
        client.publish("other", 1).sendAsync();
        assertEquals("/queues/q/jobs", transport.next().call().path());
        assertEquals("/queues/other/jobs", transport.next().call().path());
    }

    @Test
    void anInvalidJobDoesNotFailTheOthers() throws Exception {
        List<CompletableFuture<PublishedJob>> jobs = publish(3);
        transport.next().answer(201, created(0));
        transport.next().problem(400, "invalid_parameter", "no");
        transport.next().answer(201, created(1));
        transport.next().problem(400, "invalid_parameter", "no");
        assertEquals("1", jobs.get(1).join().id());
        assertEquals(400, failure(InvalidRequestException.class, jobs.get(2)).status());
    }

    @Test
    void aPublishThatIsRepeatedDoesNotHoldUpOthers() throws Exception {
        List<CompletableFuture<PublishedJob>> jobs = publish(2);
        transport.next().breakConnection(Applied.UNKNOWN);
        Exchange one = transport.next();
        Exchange other = transport.next();
        one.answer(201, created(5));
        other.answer(201, created(5));
        assertEquals("5", jobs.get(0).join().id());
        assertEquals("5", jobs.get(1).join().id());
    }

    @Test
    void publishesThatAreNotIdempotentAreSentAlone() throws Exception {
        publish(1);
        transport.next();
        client.publish("q", 1).idempotent(false).sendAsync();
        assertEquals("/queues/q/jobs", transport.next().call().path());
    }

    @Test
    void attributesThatAreNotAsciiTravelInABatch() throws Exception {
        CompletableFuture<PublishedJob> job =
                client.publish("q", 1).attribute("city", "Zürich").sendAsync();
        Exchange batch = transport.next();
        assertEquals("Zürich", jobs(batch).get(0).path("attributes").path("city").asText());
        batch.answer(200, "{\"results\":[" + created(1) + "]}");
        assertEquals("1", job.join().id());
    }
}
