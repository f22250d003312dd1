package io.tidegate.worker;

import io.tidegate.internal.ClientCore;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;

/**
 * How a worker runs.
 *
 * @param routes the handlers by queue, in the order in which they were added
 * @param weights the weights of queues that have one
 * @param isStrict whether a queue is served only if all before it are empty
 * @param name the name with which the worker is listed
 * @param lease the length of leases, or null
 * @param reserveWait how long a reserve waits for jobs
 * @param maxRun how long a handler may run, or null
 * @param handlerThreads the threads of handlers, or null for threads of the worker
 */
record WorkerSettings(
        ClientCore core,
        Map<String, Route<?>> routes,
        Map<String, Integer> weights,
        boolean isStrict,
        String name,
        int slots,
        int prefetch,
        Duration lease,
        Duration reserveWait,
        Duration maxRun,
        Duration grace,
        List<Middleware> middleware,
        Listeners listeners,
        ExecutorService handlerThreads) {}
