package io.tidegate.testing;

import io.tidegate.TidegateClient;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * A Tidegate in memory, with a clock that only the test moves.
 *
 * <pre>{@code
 * FakeTidegate tidegate = new FakeTidegate();
 * Orders orders = new Orders(tidegate.client());
 * orders.place(17);
 * assertEquals(1, tidegate.published("close-unpaid").size());
 *
 * tidegate.advance(Duration.ofMinutes(30));
 * assertEquals(1, orders.worker().drain());
 * }</pre>
 *
 * <p>It has publishes (also batches and calls), jobs, lists of jobs, numbers of jobs, and all that workers need. It has
 * no policies, schedules, API keys, relays, groups in turn, or actions on many jobs: these are answered 404
 * {@code route_not_found}. A failed job is retried after 1 s, doubled up to 1 h, 10 times, unless it has a policy of
 * its own. A lease lasts 60 s of the clock of the fake, unless the job or worker says otherwise.
 */
public final class FakeTidegate {
    private final FakeStore store;
    private final TidegateClient client;

    /** A fake whose clock begins at 2030-01-01. */
    public FakeTidegate() {
        this(Instant.parse("2030-01-01T00:00:00Z"));
    }

    /**
     * A fake whose clock begins at an instant.
     *
     * @param begin the instant
     */
    public FakeTidegate(Instant begin) {
        this.store = new FakeStore(begin);
        this.client = TidegateClient.builder().transport(new FakeTransport(store)).build();
    }

    /**
     * A client of the fake, for the program under test.
     *
     * @return the client, always the same
     */
    public TidegateClient client() {
        return client;
    }

    /**
     * The time of the fake.
     *
     * @return the time
     */
    public Instant now() {
        return store.now();
    }

    /**
     * Moves the clock. Delayed jobs become ready, and leases expire.
     *
     * @param duration how far
     */
    public void advance(Duration duration) {
        if (duration.isNegative()) {
            throw new IllegalArgumentException("the clock does not go back: " + duration);
        }
        store.advance(duration);
    }

    /**
     * All jobs that were ever published to a queue, in this order, as they are now.
     *
     * @param queue the name of the queue
     * @return the jobs; the ones that are deleted have no state
     */
    public List<FakeJob> published(String queue) {
        return store.published(queue);
    }

    /**
     * The jobs of a queue that are there, in the order of their publishes.
     *
     * @param queue the name of the queue
     * @return the jobs
     */
    public List<FakeJob> jobs(String queue) {
        return published(queue).stream().filter(job -> job.state() != null).toList();
    }
}
