package io.tidegate.worker;

import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.Names;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutorService;

/** Describes a {@link Worker}: handlers for 1 to 16 queues, and how to run them. */
public final class WorkerBuilder {
    private static final int QUEUES_MAX = 16;
    private static final int SLOTS = 64;
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final Duration GRACE = Duration.ofSeconds(25);

    private final ClientCore core;
    private final Map<String, Route<?>> routes = new LinkedHashMap<>();
    private final Map<String, Integer> weights = new HashMap<>();
    private final List<Middleware> middleware = new ArrayList<>();
    private final List<WorkerListener> listeners = new ArrayList<>();
    private boolean isStrict;
    private String name;
    private int slots = SLOTS;
    private int prefetch;
    private Duration lease;
    private Duration wait = WAIT;
    private Duration maxRun;
    private Duration grace = GRACE;
    private ExecutorService handlerThreads;

    WorkerBuilder(ClientCore core) {
        this.core = core;
    }

    /**
     * Handles the jobs of a queue.
     *
     * @param queue the name of the queue
     * @param type the type of the payloads: {@code Payload} and {@code byte[]} take any, others take JSON
     * @param handler runs the jobs; many threads use it at the same time
     * @param <T> the type of the payloads
     * @return this
     * @throws InvalidRequestException if the name is not valid, or has a handler
     */
    public <T> WorkerBuilder handle(String queue, Class<T> type, JobHandler<? super T> handler) {
        return handleWithResult(queue, type, (payload, job) -> {
            handler.handle(payload, job);
            return null;
        });
    }

    /**
     * Handles the jobs of a queue, and returns their results.
     *
     * @param queue the name of the queue
     * @param type the type of the payloads: {@code Payload} and {@code byte[]} take any, others take JSON
     * @param handler runs the jobs; many threads use it at the same time
     * @param <T> the type of the payloads
     * @return this
     * @throws InvalidRequestException if the name is not valid, or has a handler
     */
    public <T> WorkerBuilder handleWithResult(String queue, Class<T> type, JobFunction<T> handler) {
        Names.check("queue", queue);
        if (routes.putIfAbsent(queue, new Route<>(type, handler)) != null) {
            throw invalid("queue", "the queue " + queue + " has two handlers");
        }
        return this;
    }

    /**
     * Sets how often a queue is looked into first, compared with the others. Default: 1. Excludes
     * {@link #strictOrder}.
     *
     * @param queue the name of the queue
     * @param weight 1 or more
     * @return this
     */
    public WorkerBuilder weight(String queue, int weight) {
        weights.put(queue, weight);
        return this;
    }

    /**
     * Serves the queues in the order in which their handlers were added: a queue only if all before it are empty.
     * Default: in random order, so that none starves.
     *
     * @return this
     */
    public WorkerBuilder strictOrder() {
        this.isStrict = true;
        return this;
    }

    /**
     * Sets the name with which the worker is listed together with its jobs. Default: {@code HOST:PID}.
     *
     * @param name 1 to 128 bytes, unique among workers
     * @return this
     */
    public WorkerBuilder name(String name) {
        this.name = Objects.requireNonNull(name, "name");
        return this;
    }

    /**
     * Sets how many handlers run at the same time. Default: 64.
     *
     * @param slots 1 or more
     * @return this
     */
    public WorkerBuilder slots(int slots) {
        if (slots < 1) {
            throw invalid("slots", "a worker has at least one slot, not " + slots);
        }
        this.slots = slots;
        return this;
    }

    /**
     * Sets how many jobs may wait in this process for a slot. Default: 0, so that a job never waits here while another
     * worker is free. With handlers that take less than about 10 ms, as many as slots keep these busy.
     *
     * @param jobs 0 or more
     * @return this
     */
    public WorkerBuilder prefetch(int jobs) {
        if (jobs < 0) {
            throw invalid("prefetch", "a number of jobs is not negative: " + jobs);
        }
        this.prefetch = jobs;
        return this;
    }

    /**
     * Sets the length of leases: after so long without a sign of this worker its jobs are delivered to another one.
     * Default: as the jobs or the policies of their queues say.
     *
     * @param lease 100 ms to 24 h
     * @return this
     */
    public WorkerBuilder lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /**
     * Sets how long a reserve waits for jobs. Default: 30 s.
     *
     * @param wait up to 24 h
     * @return this
     */
    public WorkerBuilder waitFor(Duration wait) {
        this.wait = Objects.requireNonNull(wait, "wait");
        return this;
    }

    /**
     * Sets how long a handler may run. Then it is aborted, its lease is not extended any more, and if it throws, the
     * attempt has failed. Default: no limit.
     *
     * @param limit more than zero
     * @return this
     */
    public WorkerBuilder maxRun(Duration limit) {
        this.maxRun = limit;
        return this;
    }

    /**
     * Sets how long handlers may go on after a stop. Then they are aborted, and their jobs given back. Set it shorter
     * than the time after which your system kills the process. Default: 25 s.
     *
     * @param grace zero or more
     * @return this
     */
    public WorkerBuilder grace(Duration grace) {
        this.grace = Objects.requireNonNull(grace, "grace");
        return this;
    }

    /**
     * Wraps all handlers. What is added later is inside.
     *
     * @param middleware runs around handlers
     * @return this
     */
    public WorkerBuilder middleware(Middleware middleware) {
        this.middleware.add(Objects.requireNonNull(middleware, "middleware"));
        return this;
    }

    /**
     * Adds a listener of the events of the worker.
     *
     * @param listener gets the events
     * @return this
     */
    public WorkerBuilder listener(WorkerListener listener) {
        this.listeners.add(Objects.requireNonNull(listener, "listener"));
        return this;
    }

    /**
     * Sets the threads of handlers. They must run as many tasks at the same time as there are slots, and are not closed
     * with the worker. Default: virtual threads with JDK 21 and later, else a pool.
     *
     * @param threads the threads
     * @return this
     */
    public WorkerBuilder handlerThreads(ExecutorService threads) {
        this.handlerThreads = Objects.requireNonNull(threads, "threads");
        return this;
    }

    /**
     * Makes the worker. Nothing is sent until it is run or started.
     *
     * @return the worker
     * @throws InvalidRequestException if it has no handler, or more than 16
     */
    public Worker build() {
        if (routes.isEmpty() || routes.size() > QUEUES_MAX) {
            String detail = "a worker has handlers for 1 to " + QUEUES_MAX + " queues, not " + routes.size();
            throw invalid("queues", detail);
        }
        return new Worker(new WorkerSettings(
                core,
                new LinkedHashMap<>(routes),
                Map.copyOf(weights),
                isStrict,
                name != null ? name : defaultName(),
                slots,
                prefetch,
                lease,
                wait,
                maxRun,
                grace,
                List.copyOf(middleware),
                new Listeners(List.copyOf(listeners)),
                handlerThreads));
    }

    /** It is unique among processes, and says where to look for it. */
    private static String defaultName() {
        String host;
        try {
            host = InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException noName) {
            host = "unknown";
        }
        return host + ":" + ProcessHandle.current().pid();
    }

    private static InvalidRequestException invalid(String field, String detail) {
        return new InvalidRequestException(Failure.notSent(field, detail), null);
    }
}
