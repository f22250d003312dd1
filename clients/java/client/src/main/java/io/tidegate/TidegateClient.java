package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Json;
import io.tidegate.internal.Names;
import io.tidegate.internal.Pages;
import io.tidegate.internal.Problems;
import io.tidegate.internal.PublishGatherer;
import io.tidegate.internal.PublishRequest;
import io.tidegate.internal.Safety;
import io.tidegate.model.PublishedJob;
import io.tidegate.model.QueueView;
import io.tidegate.model.ScheduleDetails;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * A client of one namespace. It is safe for use by many threads; a process needs one.
 *
 * <pre>{@code
 * try (TidegateClient client = TidegateClient.connect()) {
 *     client.publish("close-unpaid", Map.of("order", 17)).key("order-17").delay(Duration.ofMinutes(30)).send();
 * }
 * }</pre>
 */
public final class TidegateClient implements AutoCloseable {
    private final ClientCore core;
    private final PublishGatherer gatherer;

    TidegateClient(ClientCore core) {
        this.core = core;
        this.gatherer = new PublishGatherer(core);
    }

    /**
     * A client with the settings of the variables {@code TIDEGATE_URL}, {@code TIDEGATE_KEY} and
     * {@code TIDEGATE_NAMESPACE}. No request is sent.
     *
     * @return the client
     * @throws IllegalArgumentException if a variable is missing or not valid
     */
    public static TidegateClient connect() {
        return builder().build();
    }

    /**
     * Starts to describe a client. Settings that are not made are taken from the variables.
     *
     * @return a builder
     */
    public static ClientBuilder builder() {
        return new ClientBuilder();
    }

    /**
     * A job to publish. Nothing happens until it is sent.
     *
     * @param queue the name of its queue
     * @param payload a {@link Payload}, a {@code byte[]}, or a value that becomes JSON
     * @return the job, to add options and send it
     */
    public Publish publish(String queue, Object payload) {
        return new Publish(core, gatherer, Names.check("queue", queue), payload);
    }

    /**
     * Publishes jobs to one queue in one request, in this order. Each is published or not.
     *
     * @param queue the name of the queue
     * @param jobs up to 1,000 jobs
     * @return one result for each, in order
     * @throws TidegateException if the whole request fails
     */
    public List<BatchResult> publishBatch(String queue, List<BatchJob> jobs) {
        List<BatchResult> results = new ArrayList<>();
        if (!jobs.isEmpty()) {
            for (JsonNode result : sendBatch(queue, jobs, false).path("results")) {
                results.add(result(result));
            }
        }
        return results;
    }

    /**
     * Publishes all jobs or none.
     *
     * @param queue the name of the queue
     * @param jobs up to 64 jobs
     * @return the jobs, in order
     * @throws TidegateException if none is published; its field names the job that is the cause
     */
    public List<PublishedJob> publishAtomically(String queue, List<BatchJob> jobs) {
        List<PublishedJob> published = new ArrayList<>();
        if (!jobs.isEmpty()) {
            for (JsonNode result : sendBatch(queue, jobs, true).path("results")) {
                published.add(result(result).job());
            }
        }
        return published;
    }

    private JsonNode sendBatch(String queue, List<BatchJob> jobs, boolean isAtomic) {
        String name = Names.check("queue", queue);
        List<PublishRequest> requests =
                jobs.stream().map(job -> job.request(core, name)).toList();
        boolean isSafe = requests.stream().allMatch(it -> it.safety() == Safety.REPEATABLE);
        Safety safety = isSafe ? Safety.REPEATABLE : Safety.ONLY_IF_NOT_APPLIED;
        HttpReply reply = core.call(PublishRequest.batch(requests, isAtomic), safety);
        return reply.json(JsonNode.class);
    }

    private static BatchResult result(JsonNode result) {
        if (result.has("problem")) {
            return BatchResult.of(Problems.of(result.get("problem")));
        }
        return BatchResult.of(Json.WIRE.convertValue(result, PublishedJob.class));
    }

    /**
     * A queue. No request is sent.
     *
     * @param name its name
     * @return the queue
     * @throws io.tidegate.error.InvalidRequestException if the name is not valid
     */
    public Queue queue(String name) {
        return new Queue(core, name);
    }

    /**
     * The queues of the namespace.
     *
     * @return the queues; pages are read as the stream is consumed
     */
    public Stream<QueueView> queues() {
        return Pages.stream(core, "/queues", QueueView.class);
    }

    /**
     * A schedule. No request is sent.
     *
     * @param name its name
     * @return the schedule, whether it exists or not
     */
    public ScheduleHandle schedule(String name) {
        return new ScheduleHandle(core, name);
    }

    /**
     * The schedules of the namespace.
     *
     * @return the schedules; pages are read as the stream is consumed
     */
    public Stream<ScheduleDetails> schedules() {
        return Pages.stream(core, "/schedules", ScheduleDetails.class);
    }

    /**
     * The API keys of the namespace.
     *
     * @return the keys
     */
    public ApiKeys keys() {
        return new ApiKeys(core);
    }

    /**
     * Reserve, ack, fail, touch and release, for programs that cannot use a worker.
     *
     * @return the calls
     */
    public Leases leases() {
        return new Leases(core);
    }

    /** The parts that workers share with the client. Not for users: the type is not exported. */
    public ClientCore core() {
        return core;
    }

    /** Closes the connections. Requests in flight fail. With a JDK before 21, connections are closed when idle. */
    @Override
    public void close() {
        core.close();
    }
}
