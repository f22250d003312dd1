package io.tidegate.spring;

import io.tidegate.TidegateClient;
import io.tidegate.spring.TidegateProperties.Worker;
import io.tidegate.worker.Middleware;
import io.tidegate.worker.WorkerBuilder;
import io.tidegate.worker.WorkerListener;
import java.util.List;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Runs the worker from the time when the application is ready until it is closed: then no further jobs are reserved,
 * and handlers have the grace period to finish.
 */
public class TidegateWorker implements SmartLifecycle {
    private final TidegateClient client;
    private final Worker properties;
    private final ListableBeanFactory beans;
    private final List<Middleware> middleware;
    private final List<WorkerListener> listeners;
    private io.tidegate.worker.Worker running;

    /**
     * A worker for all handlers of the application.
     *
     * @param client the client
     * @param properties how it runs
     * @param beans the beans with the handlers
     * @param middleware wraps the handlers, in this order
     * @param listeners get the events of the worker
     */
    public TidegateWorker(
            TidegateClient client,
            Worker properties,
            ListableBeanFactory beans,
            List<Middleware> middleware,
            List<WorkerListener> listeners) {
        this.client = client;
        this.properties = properties;
        this.beans = beans;
        this.middleware = middleware;
        this.listeners = listeners;
    }

    @Override
    public synchronized void start() {
        WorkerBuilder builder = io.tidegate.worker.Worker.builder(client)
                .slots(properties.slots())
                .prefetch(properties.prefetch())
                .lease(properties.lease())
                .maxRun(properties.maxRun())
                .grace(properties.grace());
        if (properties.name() != null) {
            builder.name(properties.name());
        }
        if (properties.strictOrder()) {
            builder.strictOrder();
        }
        properties.weights().forEach(builder::weight);
        middleware.forEach(builder::middleware);
        listeners.forEach(builder::listener);
        if (HandlerMethods.addAll(beans, builder) > 0) {
            running = builder.build();
            running.start();
        }
    }

    @Override
    public synchronized void stop() {
        if (running != null) {
            running.stop();
            running = null;
        }
    }

    @Override
    public synchronized boolean isRunning() {
        return running != null;
    }
}
