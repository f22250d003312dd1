package io.tidegate.worker;

import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.LeaseBodies.Failed;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The ends of jobs that the server does not know yet. They travel with the next reserve; if none is sent within a
 * moment, they are sent on their own.
 */
final class Reports implements Runnable {
    /** So many are sent on their own at once. */
    private static final int BATCH_JOBS = 64;
    /** How long ends of jobs wait for a reserve that takes them, and for each other. */
    private static final long BATCH_DELAY_NS = 2_000_000;
    /** The most requests in flight. */
    private static final int CALLS_MAX = 8;
    /** The most ends of jobs that wait to be reported. Handlers that end then keep their slots. */
    private static final int WAITING_MAX = 512;
    /** The most ends of jobs that travel with one reserve. */
    private static final int RESERVE_JOBS_MAX = 256;

    private final ReportCalls calls;
    private final ExecutorService threads = HandlerThreads.pool("tidegate-report-", CALLS_MAX);
    private final Semaphore callsLeft = new Semaphore(CALLS_MAX);
    private final Semaphore room = new Semaphore(WAITING_MAX);

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Deque<EndedJob> pending = new ArrayDeque<>();
    /** The ends of jobs that were added, and not reported yet. */
    private int unreported;

    private boolean isFinishing;

    Reports(ReportCalls calls) {
        this.calls = calls;
    }

    /** Waits until one more end of a job may wait. */
    void awaitRoom() {
        room.acquireUninterruptibly();
    }

    void giveRoom() {
        room.release();
    }

    /** Adds the end of a job, for which there is room. */
    void add(EndedJob ended) {
        lock.lock();
        try {
            unreported++;
            pending.add(ended);
            if (pending.size() == 1 || pending.size() == BATCH_JOBS) {
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Takes ends of jobs that travel with a reserve, which may wait for long: they take no room meanwhile. */
    List<EndedJob> takeForReserve() {
        List<EndedJob> taken = new ArrayList<>();
        lock.lock();
        try {
            Iterator<EndedJob> ends = pending.iterator();
            while (ends.hasNext() && taken.size() < RESERVE_JOBS_MAX) {
                EndedJob ended = ends.next();
                if (ended.fitsReserve()) {
                    taken.add(ended);
                    ends.remove();
                }
            }
        } finally {
            lock.unlock();
        }
        leaveRoom(taken);
        return taken;
    }

    private void leaveRoom(List<EndedJob> ends) {
        room.release((int) ends.stream().filter(EndedJob::leaveRoom).count());
    }

    /** The server knows these ends of jobs, or will never know them. */
    void reported(List<EndedJob> ends) {
        leaveRoom(ends);
        lock.lock();
        try {
            unreported -= ends.size();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** The reserve with these ends of jobs has failed: they are sent on their own. */
    void reserveFailed(List<EndedJob> ends) {
        lock.lock();
        try {
            for (EndedJob ended : ends) {
                ended.repeatAlone();
                pending.add(ended);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Reports ends of jobs until the thread is interrupted. */
    @Override
    public void run() {
        try {
            while (true) {
                for (List<EndedJob> group : groups(next())) {
                    send(group);
                }
            }
        } catch (InterruptedException stopped) {
            // The worker has ended.
        }
    }

    private List<EndedJob> next() throws InterruptedException {
        lock.lock();
        try {
            while (true) {
                while (pending.isEmpty()) {
                    changed.await();
                }
                awaitMore();
                List<EndedJob> batch = new ArrayList<>(pending);
                pending.clear();
                if (!batch.isEmpty()) {
                    return batch;
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void awaitMore() throws InterruptedException {
        long left = BATCH_DELAY_NS;
        while (left > 0 && !pending.isEmpty() && pending.size() < BATCH_JOBS && !isFinishing) {
            left = changed.awaitNanos(left);
        }
    }

    /** Ends of jobs that one request reports. */
    private static Iterable<List<EndedJob>> groups(List<EndedJob> batch) {
        Map<Object, List<EndedJob>> groups = new HashMap<>();
        for (EndedJob ended : batch) {
            Object report = ended.report();
            Object kind = report instanceof Done || report instanceof Failed ? report.getClass() : report;
            groups.computeIfAbsent(kind, it -> new ArrayList<>()).add(ended);
        }
        return groups.values();
    }

    /** Reports all ends of jobs in this thread. */
    void sendNow() {
        List<EndedJob> batch;
        lock.lock();
        try {
            batch = new ArrayList<>(pending);
            pending.clear();
        } finally {
            lock.unlock();
        }
        for (List<EndedJob> group : groups(batch)) {
            calls.report(group);
            reported(group);
        }
    }

    private void send(List<EndedJob> group) throws InterruptedException {
        callsLeft.acquire();
        threads.execute(() -> {
            try {
                calls.report(group);
            } finally {
                callsLeft.release();
                reported(group);
            }
        });
    }

    /** Waits until all ends of jobs are reported; returns whether they were in time. */
    boolean finish(Duration limit) throws InterruptedException {
        long left = limit.toNanos();
        lock.lock();
        try {
            isFinishing = true;
            changed.signalAll();
            while (unreported > 0 && left > 0) {
                left = changed.awaitNanos(left);
            }
            return unreported == 0;
        } finally {
            lock.unlock();
        }
    }

    /** Ends the requests in flight. */
    void close() {
        threads.shutdownNow();
        // No handler waits for ever.
        room.release(WAITING_MAX);
    }
}
