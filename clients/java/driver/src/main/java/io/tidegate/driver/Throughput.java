package io.tidegate.driver;

import io.tidegate.BatchJob;
import io.tidegate.Payload;
import io.tidegate.TidegateClient;
import io.tidegate.worker.Worker;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Measures a worker with empty handlers: {@code Throughput JOBS SLOTS ROUNDS}. The first round warms the JVM up. */
public final class Throughput {
    private static final String QUEUE = "throughput";
    private static final int BATCH_JOBS = 1_000;

    private Throughput() {}

    /**
     * Publishes jobs, and measures how long a worker takes, in each round.
     *
     * @param arguments the numbers of jobs, slots and rounds
     * @throws InterruptedException if it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        int jobs = Integer.parseInt(arguments[0]) / BATCH_JOBS * BATCH_JOBS;
        int slots = Integer.parseInt(arguments[1]);
        try (TidegateClient client = TidegateClient.connect()) {
            for (int round = 0; round < Integer.parseInt(arguments[2]); round++) {
                publish(client, jobs);
                double seconds = work(client, jobs, slots);
                System.out.printf("%d jobs in %.2f s: %.0f jobs/s%n", jobs, seconds, jobs / seconds);
            }
        }
    }

    private static void publish(TidegateClient client, int jobs) {
        List<BatchJob> batch = Collections.nCopies(BATCH_JOBS, BatchJob.of("x"));
        for (int published = 0; published < jobs; published += BATCH_JOBS) {
            client.publishBatch(QUEUE, batch);
        }
    }

    private static double work(TidegateClient client, int jobs, int slots) throws InterruptedException {
        CountDownLatch left = new CountDownLatch(jobs);
        Worker worker = Worker.builder(client)
                .slots(slots)
                .handle(QUEUE, Payload.class, (payload, job) -> left.countDown())
                .build();
        long begin = System.nanoTime();
        worker.start();
        left.await();
        double seconds = (System.nanoTime() - begin) / 1e9;
        worker.stop();
        return seconds;
    }
}
