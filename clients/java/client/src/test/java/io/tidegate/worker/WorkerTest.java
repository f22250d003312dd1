package io.tidegate.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.Payload;
import io.tidegate.TidegateClient;
import io.tidegate.error.AuthException;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.ScriptedTransport;
import io.tidegate.model.IfRunning;
import io.tidegate.model.JobState;
import io.tidegate.testing.FakeTidegate;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
class WorkerTest {
    private final FakeTidegate tidegate = new FakeTidegate();
    private final TidegateClient client = tidegate.client();
    private final Queue<String> events = new ConcurrentLinkedQueue<>();
    private final CountDownLatch started = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);

    private final WorkerListener listener = new WorkerListener() {
        @Override
        public void onAborted(Job job, AbortReason reason) {
            events.add(reason.name());
        }

        @Override
        public void onEnded(Job job, End end, Duration took, Throwable error) {
            events.add(end.name());
            ended.countDown();
        }
    };

    private WorkerBuilder sleeper() {
        return Worker.builder(client).listener(listener).handle("q", Payload.class, (payload, job) -> {
            started.countDown();
            Thread.sleep(30_000);
        });
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        assertTrue(latch.await(10, TimeUnit.SECONDS));
    }

    @Test
    void aCancelThatIsAskedForInterruptsTheHandlerAndDeletesTheJob() throws Exception {
        String id = client.publish("q", 1).lease(Duration.ofMillis(300)).send().id();
        Worker worker = sleeper().build();
        worker.start();
        await(started);
        client.queue("q").job(id).cancel(IfRunning.ASK);
        await(ended);
        worker.stop();
        assertEquals(List.of("CANCEL_REQUESTED", "FAILED"), List.copyOf(events));
        assertEquals(List.of(), tidegate.jobs("q"));
    }

    @Test
    void aRevokedJobIsNotReported() throws Exception {
        String id = client.publish("q", 1).lease(Duration.ofMillis(300)).send().id();
        Worker worker = sleeper().build();
        worker.start();
        await(started);
        client.queue("q").job(id).cancel(IfRunning.REVOKE);
        await(ended);
        worker.stop();
        assertEquals(List.of("LEASE_LOST", "LOST"), List.copyOf(events));
    }

    @Test
    void aHandlerThatRunsTooLongHasFailed() throws Exception {
        client.publish("q", 1).send();
        Worker worker = sleeper().maxRun(Duration.ofMillis(200)).build();
        worker.start();
        await(ended);
        worker.stop();
        assertEquals(List.of("MAX_RUN", "FAILED"), List.copyOf(events));
        assertEquals(List.of("the handler did not end within 200 ms"), tidegate.jobs("q").get(0).errors());
    }

    @Test
    void aStopGivesBackJobsAfterTheGracePeriod() throws Exception {
        client.publish("q", 1).send();
        client.publish("q", 2).send();
        Worker worker = sleeper().slots(1).prefetch(1).build();
        worker.start();
        await(started);
        worker.stop(Duration.ofMillis(100));
        assertEquals(List.of("STOPPING", "RELEASED"), List.copyOf(events));
        for (int job = 0; job < 2; job++) {
            assertEquals(JobState.READY, tidegate.jobs("q").get(job).state());
            assertEquals(List.of(), tidegate.jobs("q").get(job).errors());
        }
    }

    @Test
    void middlewareWrapsHandlersFromOutsideToInside() {
        client.publish("q", 1).send();
        Worker.builder(client)
                .middleware((job, next) -> {
                    events.add("outer");
                    return next.run();
                })
                .middleware((job, next) -> {
                    events.add("inner");
                    return next.run();
                })
                .handle("q", Integer.class, (number, job) -> events.add("handler"))
                .build()
                .drain();
        assertEquals(List.of("outer", "inner", "handler"), List.copyOf(events));
    }

    @Test
    void endsOfHandlersBecomeOutcomes() {
        client.publish("unreadable", "text").send();
        client.publish("snoozed", 1).send();
        client.publish("failed", 1).send();
        Worker.builder(client)
                .handle("unreadable", Integer.class, (number, job) -> {})
                .handle("snoozed", Integer.class, (number, job) -> {
                    throw new Snooze(Duration.ofMinutes(5));
                })
                .handle("failed", Integer.class, (number, job) -> {
                    throw new IllegalStateException("no luck");
                })
                .build()
                .drain();
        assertEquals(JobState.DEAD, tidegate.jobs("unreadable").get(0).state());
        assertEquals(tidegate.now().plus(Duration.ofMinutes(5)), tidegate.jobs("snoozed").get(0).runAt());
        assertEquals(List.of(), tidegate.jobs("snoozed").get(0).errors());
        assertEquals(List.of("no luck"), tidegate.jobs("failed").get(0).errors());
        assertEquals(JobState.DELAYED, tidegate.jobs("failed").get(0).state());
    }

    @Test
    void anInterruptDoesNotReachTheNextJobOfAThread() throws Exception {
        client.publish("q", 1).send();
        Worker worker = Worker.builder(client)
                .slots(1)
                .handle("q", Payload.class, (payload, job) -> {
                    events.add("interrupted " + Thread.currentThread().isInterrupted());
                    Thread.currentThread().interrupt();
                    started.countDown();
                })
                .build();
        worker.start();
        await(started);
        client.publish("q", 2).retain(Duration.ofHours(1)).call(Duration.ofSeconds(5));
        worker.stop();
        assertEquals(List.of("interrupted false", "interrupted false"), List.copyOf(events));
    }

    @Test
    void aRefusedKeyEndsTheWorker() throws Exception {
        ScriptedTransport transport = new ScriptedTransport();
        Worker worker = Worker.builder(transport.client())
                .handle("q", Payload.class, (payload, job) -> {})
                .build();
        worker.start();
        transport.next().problem(503, "storage_unavailable", "unknown");
        assertFalse(worker.await(Duration.ofMillis(10)));
        transport.next().problem(401, "key_invalid", "no");
        assertThrows(AuthException.class, () -> worker.await(Duration.ofSeconds(5)));
    }

    @Test
    void aWorkerNeedsHandlersForDifferentQueues() {
        assertThrows(InvalidRequestException.class, () -> Worker.builder(client).build());
        assertThrows(InvalidRequestException.class, () -> sleeper().handle("q", Payload.class, (payload, job) -> {}));
    }
}
