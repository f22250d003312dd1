package io.tidegate.worker;

import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.LeaseBodies;
import io.tidegate.model.LeaseOutcome;
import io.tidegate.model.LeaseResult;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Extends leases when a third of each has passed. A lease that is not extended, since the server cannot be reached, is
 * tried again until it has expired.
 */
final class Heartbeats implements Runnable {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");
    private static final int LEASES_MAX = 1_000;
    /** The shortest time that a touch may take. */
    private static final Duration ANSWER_LIMIT_MIN = Duration.ofMillis(100);

    private final ClientCore core;
    private final LeaseTable leases;

    Heartbeats(ClientCore core, LeaseTable leases) {
        this.core = core;
        this.leases = leases;
    }

    /** Runs until the thread is interrupted. */
    @Override
    public void run() {
        try {
            while (true) {
                leases.awaitTick();
                extend(leases.due(System.nanoTime()));
            }
        } catch (InterruptedException stopped) {
            // The worker has ended.
        }
    }

    /** A request extends all its leases by one length, of which there are few. */
    private void extend(List<HeldJob> due) {
        Collection<List<HeldJob>> byLength =
                due.stream().collect(Collectors.groupingBy(HeldJob::length)).values();
        for (List<HeldJob> jobs : byLength) {
            for (int begin = 0; begin < jobs.size(); begin += LEASES_MAX) {
                touch(jobs.subList(begin, Math.min(begin + LEASES_MAX, jobs.size())));
            }
        }
    }

    private void touch(List<HeldJob> jobs) {
        long sentAt = System.nanoTime();
        Duration length = jobs.get(0).length();
        List<String> texts = jobs.stream().map(it -> it.job().lease()).toList();
        // The length that was granted: the policy of the queue may have another one by now.
        HttpCall call = HttpCall.jsonBytes("POST", "/touch", LeaseBodies.leases(texts, "lease", length));
        jobs.forEach(job -> job.touching(true));
        core.sendOnce(call, answerLimit(length)).whenComplete((reply, error) -> {
            try {
                if (error == null) {
                    answered(jobs, reply, sentAt);
                } else {
                    failed(jobs, ClientCore.failure(error));
                }
            } catch (TidegateException unreadable) {
                failed(jobs, unreadable);
            } finally {
                jobs.forEach(job -> job.touching(false));
            }
        });
    }

    /** An answer that is late must leave time for another request. */
    private Duration answerLimit(Duration length) {
        Duration third = length.dividedBy(3);
        Duration limit = third.compareTo(ANSWER_LIMIT_MIN) > 0 ? third : ANSWER_LIMIT_MIN;
        return limit.compareTo(core.timeLimit()) < 0 ? limit : core.timeLimit();
    }

    private void answered(List<HeldJob> jobs, HttpReply reply, long sentAt) {
        List<LeaseResult> results = reply.json(Results.class).results();
        for (int index = 0; index < Math.min(jobs.size(), results.size()); index++) {
            apply(jobs.get(index), results.get(index), sentAt);
        }
    }

    private void apply(HeldJob job, LeaseResult result, long sentAt) {
        if (result.outcome() != LeaseOutcome.EXTENDED) {
            // A job that ended while the request was in flight is not in the table any more.
            leases.lost(job);
            return;
        }
        job.extended(sentAt);
        if (result.cancelRequested() && leases.contains(job)) {
            leases.abort(job, AbortReason.CANCEL_REQUESTED);
        }
    }

    private static void failed(List<HeldJob> jobs, TidegateException error) {
        LOG.log(
                Level.WARNING,
                () -> "failed to extend " + jobs.size() + " leases: " + error.getMessage() + "; it is repeated");
    }

    /** The answer to a touch. */
    record Results(List<LeaseResult> results) {}
}
