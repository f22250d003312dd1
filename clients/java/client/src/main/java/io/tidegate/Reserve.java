package io.tidegate;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** A request for jobs. Workers send it by themselves. */
public final class Reserve extends WireObject<Reserve> {
    private Duration wait = Duration.ZERO;

    private Reserve() {}

    /**
     * Jobs of these queues. A queue is looked into only if all before it are empty.
     *
     * @param queues the names of 1 to 16 queues
     * @return the request
     */
    public static Reserve from(List<String> queues) {
        return new Reserve().put("queues", queues);
    }

    /**
     * Jobs of these queues.
     *
     * @param queues the names of 1 to 16 queues
     * @return the request
     */
    public static Reserve from(String... queues) {
        return from(List.of(queues));
    }

    /**
     * Jobs of queues with weights. A queue of weight 3 is first three times as often as a queue of weight 1.
     *
     * @param weights the weights by the names of 1 to 16 queues
     * @return the request
     */
    public static Reserve weighted(Map<String, Integer> weights) {
        ArrayNode queues = JsonNodeFactory.instance.arrayNode();
        weights.forEach((name, weight) -> queues.addObject().put("name", name).put("weight", weight));
        return new Reserve().with("queues", queues).put("order", "weighted");
    }

    /**
     * Sets the most jobs. Default: 1.
     *
     * @param jobs 1 to 256
     * @return this
     */
    public Reserve maxJobs(int jobs) {
        return put("max_jobs", jobs);
    }

    /**
     * Sets how long the server waits for a job. Default: not at all.
     *
     * @param wait up to 24 h
     * @return this
     */
    public Reserve waitFor(Duration wait) {
        this.wait = wait;
        return put("wait", wait);
    }

    /**
     * Sets the length of the leases. Default: as the job or the policy of its queue says.
     *
     * @param lease 100 ms to 24 h
     * @return this
     */
    public Reserve lease(Duration lease) {
        return put("lease", lease);
    }

    /**
     * Sets the name with which the worker is listed.
     *
     * @param name 1 to 128 bytes
     * @return this
     */
    public Reserve worker(String name) {
        return put("worker", name);
    }

    Duration longestWait() {
        return wait;
    }
}
