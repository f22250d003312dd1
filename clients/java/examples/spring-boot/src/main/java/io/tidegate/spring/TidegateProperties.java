package io.tidegate.spring;

import java.time.Duration;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties of the client and the worker. The URL, key and namespace are taken from the variables
 * {@code TIDEGATE_URL}, {@code TIDEGATE_KEY} and {@code TIDEGATE_NAMESPACE}, too.
 *
 * @param url the URL of the server
 * @param key the API key
 * @param namespace the namespace
 * @param timeLimit how long one attempt of a request may take, besides its wait
 * @param worker the worker
 */
@ConfigurationProperties("tidegate")
public record TidegateProperties(
        String url,
        String key,
        String namespace,
        @DefaultValue("10s") Duration timeLimit,
        @DefaultValue Worker worker) {

    /**
     * The worker.
     *
     * @param enabled whether a worker runs, if there are handlers
     * @param name the name with which it is listed; by default {@code HOST:PID}
     * @param slots how many handlers run at the same time
     * @param prefetch how many jobs may wait for a slot
     * @param lease the length of leases; by default as jobs and policies say
     * @param maxRun how long a handler may run; by default as long as it likes
     * @param grace how long handlers may go on after a stop; shorter than
     *     {@code spring.lifecycle.timeout-per-shutdown-phase}
     * @param strictOrder whether a queue is served only if all before it are empty
     * @param weights the weights of queues
     */
    public record Worker(
            @DefaultValue("true") boolean enabled,
            String name,
            @DefaultValue("64") int slots,
            @DefaultValue("0") int prefetch,
            Duration lease,
            Duration maxRun,
            @DefaultValue("25s") Duration grace,
            @DefaultValue("false") boolean strictOrder,
            @DefaultValue Map<String, Integer> weights) {}
}
