package io.tidegate.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.BatchJob;
import io.tidegate.JobChange;
import io.tidegate.JobFilter;
import io.tidegate.JobResult;
import io.tidegate.Payload;
import io.tidegate.TidegateClient;
import io.tidegate.error.ConflictException;
import io.tidegate.error.NotFoundException;
import io.tidegate.model.CancelOutcome;
import io.tidegate.model.IfExists;
import io.tidegate.model.JobState;
import io.tidegate.model.PublishOutcome;
import io.tidegate.worker.Dead;
import io.tidegate.worker.RetryIn;
import io.tidegate.worker.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FakeTidegateTest {
    private final FakeTidegate tidegate = new FakeTidegate();
    private final TidegateClient client = tidegate.client();

    @Test
    void aDelayedJobRunsWhenTheClockHasMoved() {
        client.publish("q", Map.of("order", 17)).key("o/17").delay(Duration.ofMinutes(30)).attribute("a", "ü").send();
        List<Integer> orders = new ArrayList<>();
        assertEquals(0, worker(orders).drain());
        tidegate.advance(Duration.ofMinutes(30));
        assertEquals(1, worker(orders).drain());
        assertEquals(List.of(17), orders);
        FakeJob job = tidegate.published("q").get(0);
        assertEquals("ü", job.attributes().get("a"));
        assertEquals(17, job.payload().json().path("order").asInt());
        assertEquals(List.of(), tidegate.jobs("q"));
    }

    private Worker worker(List<Integer> orders) {
        return Worker.builder(client)
                .handle("q", Map.class, (order, job) -> orders.add((Integer) order.get("order")))
                .build();
    }

    @Test
    void keysFindJobs() {
        PublishOutcome first = client.publish("q", 1).key("k").delay(Duration.ofHours(1)).send().outcome();
        assertEquals(PublishOutcome.CREATED, first);
        assertEquals(PublishOutcome.EXISTS, client.publish("q", 2).key("k").send().outcome());
        assertThrows(ConflictException.class, () -> client.publish("q", 3).key("k").ifExists(IfExists.REJECT).send());
        assertEquals(
                PublishOutcome.REPLACED, client.publish("q", 4).key("k").ifExists(IfExists.REPLACE).send().outcome());
        assertEquals(4, client.queue("q").jobWithKey("k").payload().as(Integer.class));
        client.queue("q").jobWithKey("k").change(new JobChange().delay(Duration.ofHours(1)));
        assertEquals(JobState.DELAYED, client.queue("q").jobWithKey("k").show().state());
        assertEquals(CancelOutcome.CANCELLED, client.queue("q").jobWithKey("k").cancel().outcome());
        assertThrows(NotFoundException.class, () -> client.queue("q").jobWithKey("k").cancel());
    }

    @Test
    void failuresAreRetriedAndThenDead() {
        client.publish("q", 1).maxAttempts(2).send();
        Worker.builder(client)
                .handle("q", Integer.class, (it, job) -> {
                    throw new RetryIn("first", Duration.ofSeconds(30));
                })
                .build()
                .drain();
        assertEquals(JobState.DELAYED, tidegate.jobs("q").get(0).state());
        tidegate.advance(Duration.ofSeconds(30));
        Worker.builder(client)
                .handle("q", Integer.class, (it, job) -> {
                    throw new Dead("second");
                })
                .build()
                .drain();
        assertEquals(JobState.DEAD, tidegate.jobs("q").get(0).state());
        assertEquals(List.of("first", "second"), tidegate.jobs("q").get(0).errors());
        assertEquals(1, client.queue("q").show().jobs().dead());
    }

    @Test
    void resultsAreKept() {
        String id = client.publish("q", 20).retain(Duration.ofHours(1)).send().id();
        assertTrue(client.queue("q").job(id).result(Duration.ZERO).isPending());
        Worker.builder(client)
                .handleWithResult("q", Integer.class, (number, job) -> number + 1)
                .build()
                .drain();
        assertEquals(21, client.queue("q").job(id).result(Duration.ofSeconds(1)).as(Integer.class));
        tidegate.advance(Duration.ofHours(1));
        assertThrows(NotFoundException.class, () -> client.queue("q").job(id).result(Duration.ZERO));
    }

    @Test
    void aCallWaitsForAWorkerThatRuns() {
        Worker worker = Worker.builder(client)
                .handleWithResult("q", Payload.class, (payload, job) -> payload)
                .build();
        worker.start();
        JobResult result = client.publish("q", "x").retain(Duration.ofHours(1)).call(Duration.ofSeconds(5));
        worker.stop();
        assertEquals("x", result.as(String.class));
    }

    @Test
    void leasesExpireByTheClockOfTheFake() {
        client.publish("q", 1).send();
        client.leases().reserve(io.tidegate.Reserve.from("q"));
        tidegate.advance(Duration.ofSeconds(60));
        assertEquals(1, client.leases().reserve(io.tidegate.Reserve.from("q")).get(0).losses());
    }

    @Test
    void batchesAndListsWork() {
        client.publishBatch("q", List.of(BatchJob.of(1).key("a-1"), BatchJob.of(new byte[] {1}).key("b-1")));
        assertEquals(1, client.queue("q").jobs(new JobFilter().keyPrefix("a-")).count());
        assertEquals(2, client.queue("q").show().jobs().ready());
        assertThrows(NotFoundException.class, () -> client.queue("q").policy());
    }
}
