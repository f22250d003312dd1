package io.tidegate.worker;

import io.tidegate.TidegateClient;
import io.tidegate.error.TidegateException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs handlers for the jobs of queues.
 *
 * <table>
 * <caption>What happens</caption>
 * <tr><th>if</th><th>then</th></tr>
 * <tr><td>a handler returns</td><td>the job is done, with the value as its result</td></tr>
 * <tr><td>it throws</td><td>the attempt has failed: the job is retried, or dead ({@link Fail})</td></tr>
 * <tr><td>the payload is not of the type of the handler</td><td>the job is dead</td></tr>
 * <tr><td>a handler runs longer than the lease</td><td>the lease is extended every third of it</td></tr>
 * <tr><td>the server cannot be reached</td><td>everything is repeated; acks until the lease has expired</td></tr>
 * <tr><td>the server refuses the key</td><td>the worker ends with an exception</td></tr>
 * <tr><td>the worker stops</td><td>handlers finish within the grace period; other jobs are given back</td></tr>
 * </table>
 *
 * <p>Handlers run in virtual threads with JDK 21 and later, else in a pool with a thread for each slot.
 */
public final class Worker implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");
    /** How long a stop waits until the server has the last reports. */
    private static final Duration FLUSH_LIMIT = Duration.ofSeconds(10);
    /** How long a stop waits for handlers that were aborted. A handler may ignore the interrupt. */
    private static final Duration ABORT_LIMIT = Duration.ofSeconds(1);

    private final WorkerSettings settings;
    private final LeaseTable leases;
    private final Reports reports;
    private final ExecutorService handlers;
    private final ReserveLoop loop;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile Duration grace;
    private boolean isStarted;
    private volatile Thread main;

    Worker(WorkerSettings settings) {
        this.settings = settings;
        this.grace = settings.grace();
        Listeners listeners = settings.listeners();
        ReportCalls reportCalls = new ReportCalls(settings.core(), listeners);
        this.leases = new LeaseTable(
                settings.maxRun(), (job, reason) -> listeners.tell(it -> it.onAborted(job, reason)));
        this.reports = new Reports(reportCalls);
        ExecutorService given = settings.handlerThreads();
        this.handlers = given != null ? given : HandlerThreads.open(settings.slots());
        this.loop = new ReserveLoop(settings, leases, reports, reportCalls, handlers);
    }

    /**
     * Starts to describe a worker.
     *
     * @param client the client that it uses; the worker does not close it
     * @return a builder
     */
    public static WorkerBuilder builder(TidegateClient client) {
        return new WorkerBuilder(client.core());
    }

    /**
     * Runs the worker until SIGTERM or SIGINT, {@link #stop} or an interrupt of this thread stops it. A second signal
     * ends the process at once.
     *
     * @throws TidegateException if the server refuses the key of the worker
     */
    public void run() {
        try (StopSignals signals = StopSignals.install(this::requestStop)) {
            start();
            await();
        }
    }

    /**
     * Starts the worker in threads of its own. Signals have no effect on it.
     *
     * @throws IllegalStateException if it was started before
     */
    public synchronized void start() {
        if (isStarted) {
            throw new IllegalStateException("the worker was started before: build another one");
        }
        isStarted = true;
        main = new Thread(this::runAll, "tidegate-worker");
        main.setDaemon(true);
        main.start();
    }

    /**
     * Runs the jobs that are ready now in this thread, one after the other, until there are none. For tests, with a
     * {@code FakeTidegate} or a real server. The worker cannot be started after that.
     *
     * @return how many jobs have run
     * @throws TidegateException if a request fails
     */
    public synchronized int drain() {
        isStarted = true;
        Thread heartbeats = background("tidegate-heartbeats", new Heartbeats(settings.core(), leases));
        try {
            int jobs = 0;
            while (loop.runNext()) {
                reports.sendNow();
                jobs++;
            }
            return jobs;
        } finally {
            heartbeats.interrupt();
        }
    }

    /** Asks the worker to stop, and returns at once. */
    public void requestStop() {
        loop.stop();
    }

    /** Stops the worker, and waits until it has ended. Handlers have the grace period to finish. */
    public void stop() {
        stop(grace);
    }

    /**
     * Stops the worker, and waits until it has ended. If the thread is interrupted it returns at once, and the worker
     * goes on to stop.
     *
     * @param grace how long handlers may go on; then they are aborted, and their jobs given back
     */
    public void stop(Duration grace) {
        this.grace = grace;
        loop.stop();
        if (main == null) {
            return;
        }
        try {
            ended.get();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException refused) {
            LOG.log(Level.DEBUG, "the worker had ended before it was stopped", refused);
        }
    }

    /** Stops the worker. */
    @Override
    public void close() {
        stop();
    }

    /**
     * Waits until the worker has ended.
     *
     * @param limit how long to wait
     * @return whether it has ended
     * @throws InterruptedException if the thread is interrupted
     * @throws TidegateException if the server has refused the key of the worker
     */
    public boolean await(Duration limit) throws InterruptedException {
        try {
            ended.get(limit.toNanos(), TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException running) {
            return false;
        } catch (ExecutionException error) {
            throw thrown(error);
        }
    }

    private void await() {
        try {
            ended.get();
        } catch (InterruptedException interrupted) {
            stop();
            Thread.currentThread().interrupt();
        } catch (ExecutionException error) {
            throw thrown(error);
        }
    }

    private static RuntimeException thrown(ExecutionException error) {
        if (error.getCause() instanceof TidegateException refused) {
            return refused.copy();
        }
        return new IllegalStateException("the worker has failed", error.getCause());
    }

    private void runAll() {
        Thread heartbeats = background("tidegate-heartbeats", new Heartbeats(settings.core(), leases));
        Thread reporter = background("tidegate-reports", reports);
        try {
            TidegateException refused = loop.run();
            end();
            if (refused == null) {
                ended.complete(null);
            } else {
                ended.completeExceptionally(refused);
            }
        } catch (InterruptedException | RuntimeException | Error unexpected) {
            LOG.log(Level.ERROR, "the worker has failed", unexpected);
            ended.completeExceptionally(unexpected);
        } finally {
            heartbeats.interrupt();
            reporter.interrupt();
            reports.close();
            if (settings.handlerThreads() == null) {
                handlers.shutdown();
            }
        }
    }

    private static Thread background(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void end() throws InterruptedException {
        loop.endReserves();
        if (!loop.awaitHandlers(grace)) {
            leases.abortAll(AbortReason.STOPPING);
            if (!loop.awaitHandlers(ABORT_LIMIT)) {
                LOG.log(Level.WARNING, "handlers ignore their interrupt; their jobs are given back all the same");
            }
        }
        loop.giveBackRunning();
        if (!reports.finish(FLUSH_LIMIT)) {
            LOG.log(
                    Level.WARNING,
                    "failed to report the last jobs within " + FLUSH_LIMIT.toSeconds()
                            + " s; they run again when their leases expire");
        }
    }
}
