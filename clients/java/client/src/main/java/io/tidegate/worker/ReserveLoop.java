package io.tidegate.worker;

import io.tidegate.RepeatLimits;
import io.tidegate.error.AuthException;
import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.RepeatDelays;
import io.tidegate.internal.ReserveAnswer;
import io.tidegate.model.LeaseOutcome;
import io.tidegate.model.LeasedJob;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Reserves jobs as slots become free, and starts their handlers. All its state is of one thread; other threads post
 * events to its mailbox.
 */
final class ReserveLoop {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");

    private static final Duration FIRST_DELAY = Duration.ofMillis(100);
    private static final Duration LONGEST_DELAY = Duration.ofSeconds(5);
    /** The most reserves in flight. */
    private static final int CALLS_MAX = 4;

    private static final int JOBS_MAX = 256;
    /** An empty answer that comes earlier than the wait is followed by this pause. */
    private static final Duration EMPTY_PAUSE = Duration.ofMillis(50);

    /** How long a reserve waits for jobs at most if it reports ends of jobs. */
    private static final Duration SETTLING_WAIT = Duration.ofSeconds(2);
    /** How long a stop waits for the answers to reserves. A server that has no job does not answer. */
    private static final Duration LAST_ANSWERS = Duration.ofMillis(250);

    private final WorkerSettings settings;
    private final LeaseTable leases;
    private final Reports reports;
    private final ReportCalls reportCalls;
    private final JobRunner runner;
    private final ExecutorService handlers;
    private final BlockingQueue<Runnable> mailbox = new LinkedBlockingQueue<>();

    /** Jobs that wait for a slot. */
    private final Deque<HeldJob> waiting = new ArrayDeque<>();
    private final Set<CompletableFuture<HttpReply>> calls = new HashSet<>();
    /** The jobs that the calls in flight may return. */
    private int requested;
    /** The handlers that run. Their threads count them down. */
    private final AtomicInteger running = new AtomicInteger();
    /** The end of a handler is an event if no more than so many others run: else the loop could do nothing with it. */
    private volatile int wakeAt;
    /** Whether the last answer had as many jobs as requested: there are probably more. */
    private boolean isBusy;

    private RepeatDelays delays = RepeatDelays.endless(FIRST_DELAY, LONGEST_DELAY);
    /** Before that no reserve is sent; null if one may be sent now. */
    private Long notBefore;

    private boolean isStopping;
    private TidegateException refused;

    ReserveLoop(
            WorkerSettings settings,
            LeaseTable leases,
            Reports reports,
            ReportCalls reportCalls,
            ExecutorService handlers) {
        this.settings = settings;
        this.leases = leases;
        this.reports = reports;
        this.reportCalls = reportCalls;
        this.runner = new JobRunner(settings, leases, reports);
        this.handlers = handlers;
    }

    /** Runs a job that is ready now in this thread; returns whether there was one. */
    boolean runNext() {
        HttpCall call = ReserveRequest.call(settings, 1, Duration.ZERO, List.of());
        ReserveAnswer answer = ReserveAnswer.read(settings.core().call(call).body(), settings.core().mapper());
        for (LeasedJob job : answer.jobs()) {
            HeldJob held = new HeldJob(job, System.nanoTime());
            leases.add(held);
            runner.run(held);
        }
        return !answer.jobs().isEmpty();
    }

    /** Ends {@link #run}. Any thread may call it. */
    void stop() {
        mailbox.add(() -> isStopping = true);
    }

    /** Runs jobs until it is stopped. Returns the error if the server refuses the key of the worker, else null. */
    TidegateException run() throws InterruptedException {
        while (!isStopping && refused == null) {
            requestMore();
            wakeAt = usefulEnds();
            // A handler that ended before that has posted no event.
            process(running.get() <= wakeAt ? 0 : pauseNanos());
            startWaiting();
        }
        isStopping = true;
        return refused;
    }

    /** Processes events: waits for the first one, and takes all that are there. */
    private boolean process(long waitNanos) throws InterruptedException {
        Runnable event = mailbox.poll(waitNanos, TimeUnit.NANOSECONDS);
        boolean hasEvent = event != null;
        while (event != null) {
            event.run();
            event = mailbox.poll();
        }
        return hasEvent;
    }

    private long pauseNanos() {
        return notBefore == null ? Long.MAX_VALUE : Math.max(0, notBefore - System.nanoTime());
    }

    /** Sends a reserve if there is room for jobs. While the queues have more jobs than room, several are in flight. */
    private void requestMore() {
        if (notBefore != null && notBefore - System.nanoTime() > 0) {
            return;
        }
        notBefore = null;
        int free = room() - running.get();
        if (free >= leastFree()) {
            reserve(Math.min(free, JOBS_MAX));
        }
    }

    /** How many jobs may run besides the jobs that are here or requested. */
    private int room() {
        return settings.slots() + settings.prefetch() - waiting.size() - requested;
    }

    /** With how many free places a reserve is sent. */
    private int leastFree() {
        if (calls.isEmpty()) {
            return 1;
        }
        boolean mayAdd = isBusy && calls.size() < CALLS_MAX;
        return mayAdd ? (settings.slots() + settings.prefetch() + 3) / 4 : Integer.MAX_VALUE;
    }

    /** With how many running handlers the loop can start a handler or send a reserve. */
    private int usefulEnds() {
        int forHandler = waiting.isEmpty() ? -1 : settings.slots() - 1;
        long forReserve = notBefore != null ? -1 : (long) room() - leastFree();
        return (int) Math.max(forHandler, Math.max(-1, forReserve));
    }

    private void reserve(int jobs) {
        List<EndedJob> ends = reports.takeForReserve();
        Duration wait = ends.isEmpty() ? settings.reserveWait() : shortWait();
        HttpCall call = ReserveRequest.call(settings, jobs, wait, ends);
        requested += jobs;
        long sentAt = System.nanoTime();
        CompletableFuture<HttpReply> sending = settings.core().sendOnce(call);
        calls.add(sending);
        sending.whenComplete((reply, error) -> {
            Duration took = Duration.ofNanos(System.nanoTime() - sentAt);
            Runnable event = event(reply, error, new Sent(jobs, wait, ends, took));
            mailbox.add(() -> {
                calls.remove(sending);
                requested -= jobs;
                event.run();
            });
        });
    }

    /** The answer confirms the ends of jobs: until then it is not known whether they must be reported again. */
    private Duration shortWait() {
        Duration wait = settings.reserveWait();
        return wait.compareTo(SETTLING_WAIT) < 0 ? wait : SETTLING_WAIT;
    }

    /** A reserve that has ended: for so many jobs, with these ends of jobs. */
    private record Sent(int jobs, Duration serverWait, List<EndedJob> ends, Duration took) {
        /** Whether an empty answer came long before the end of the wait. */
        boolean isEarly() {
            Duration half = serverWait.dividedBy(2);
            return took.compareTo(half.compareTo(EMPTY_PAUSE) > 0 ? half : EMPTY_PAUSE) < 0;
        }
    }

    /** Reads an answer, in the thread that received it. */
    private Runnable event(HttpReply reply, Throwable error, Sent sent) {
        try {
            if (error == null) {
                ReserveAnswer answer = ReserveAnswer.read(reply.body(), settings.core().mapper());
                return () -> answered(answer, sent);
            }
            TidegateException failure = ClientCore.failure(error);
            return () -> failed(failure, sent.ends);
        } catch (TidegateException unreadable) {
            return () -> failed(unreadable, sent.ends);
        }
    }

    private void answered(ReserveAnswer answer, Sent sent) {
        settle(sent.ends, answer);
        List<LeasedJob> jobs = answer.jobs();
        settings.listeners().tell(it -> it.onReserved(jobs.size(), sent.took));
        isBusy = jobs.size() >= sent.jobs;
        delays = RepeatDelays.endless(FIRST_DELAY, LONGEST_DELAY);
        if (jobs.isEmpty() && sent.isEarly()) {
            pause(EMPTY_PAUSE);
        }
        long now = System.nanoTime();
        for (LeasedJob job : jobs) {
            HeldJob held = new HeldJob(job, now);
            if (isStopping) {
                giveBack(held);
            } else {
                leases.add(held);
                waiting.add(held);
            }
        }
    }

    private void settle(List<EndedJob> ends, ReserveAnswer answer) {
        if (ends.isEmpty()) {
            return;
        }
        int acked = 0;
        int failed = 0;
        for (EndedJob ended : ends) {
            boolean isAck = ended.report() instanceof Done;
            LeaseOutcome outcome = outcome(isAck ? answer.acked() : answer.failed(), isAck ? acked++ : failed++);
            reportCalls.reported(ended, outcome);
        }
        reports.reported(ends);
    }

    private static LeaseOutcome outcome(List<LeaseOutcome> outcomes, int index) {
        return index < outcomes.size() ? outcomes.get(index) : LeaseOutcome.UNKNOWN;
    }

    private void failed(TidegateException error, List<EndedJob> ends) {
        if (!ends.isEmpty()) {
            reports.reserveFailed(ends);
        }
        if (isStopping) {
            return;
        }
        if (error instanceof AuthException) {
            refused = error;
            return;
        }
        Duration next = delays.nextAfter(error);
        Duration delay = next == null ? RepeatLimits.RETRY_AFTER_MAX : next;
        LOG.log(
                Level.WARNING,
                () -> "failed to reserve jobs: " + error.getMessage() + "; it is repeated in " + delay.toMillis()
                        + " ms");
        settings.listeners().tell(it -> it.onReserveFailed(error, delay));
        pause(delay);
    }

    private void pause(Duration delay) {
        notBefore = System.nanoTime() + delay.toNanos();
    }

    /** Starts the handlers of jobs that wait, as long as slots are free. */
    private void startWaiting() {
        while (running.get() < settings.slots() && !waiting.isEmpty() && !isStopping) {
            HeldJob held = waiting.remove();
            // Else its lease was lost while it waited.
            if (leases.contains(held)) {
                running.incrementAndGet();
                handlers.execute(() -> run(held));
            }
        }
    }

    private void run(HeldJob held) {
        try {
            runner.run(held);
        } finally {
            if (running.decrementAndGet() <= wakeAt) {
                mailbox.add(() -> {});
            }
        }
    }

    /** Only at a stop: it waits for no room, so that the stop goes on while the server cannot be reached. */
    private void giveBack(HeldJob held) {
        reports.add(EndedJob.released(held, null));
    }

    /**
     * Cuts the reserves in flight, and gives back all jobs whose handlers do not run. A busy server is about to answer
     * them with jobs, so a moment is left for that; the server gives back jobs that it has not sent when the connection
     * is closed.
     */
    void endReserves() throws InterruptedException {
        isStopping = true;
        wakeAt = Integer.MAX_VALUE;
        long deadline = System.nanoTime() + LAST_ANSWERS.toNanos();
        while (!calls.isEmpty() && process(deadline - System.nanoTime())) {
            // Jobs that arrive are given back.
        }
        List.copyOf(calls).forEach(call -> call.cancel(true));
        for (HeldJob held : waiting) {
            if (leases.remove(held)) {
                giveBack(held);
            }
        }
        waiting.clear();
    }

    /** Waits for the handlers; returns whether all have ended. */
    boolean awaitHandlers(Duration limit) throws InterruptedException {
        long deadline = System.nanoTime() + limit.toNanos();
        while (running.get() > 0 || !calls.isEmpty()) {
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                return running.get() == 0;
            }
            process(left);
        }
        return true;
    }

    /** Gives back the jobs of handlers that have not ended. */
    void giveBackRunning() {
        leases.drain().forEach(this::giveBack);
    }
}
