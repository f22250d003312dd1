package io.tidegate.worker;

import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.LeaseBodies;
import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.LeaseBodies.Failed;
import io.tidegate.internal.RepeatDelays;
import io.tidegate.model.LeaseOutcome;
import io.tidegate.model.LeaseResult;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;

/** The requests that report ends of jobs. Each is repeated until the leases of its jobs have expired. */
final class ReportCalls {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");
    private static final Duration FIRST_DELAY = Duration.ofMillis(50);
    private static final Duration LONGEST_DELAY = Duration.ofSeconds(1);
    private static final Duration RETRY_AFTER_MAX = Duration.ofSeconds(30);

    private final ClientCore core;
    private final Listeners listeners;

    ReportCalls(ClientCore core, Listeners listeners) {
        this.core = core;
        this.listeners = listeners;
    }

    /** Reports ends of one kind. */
    void report(List<EndedJob> ends) {
        try {
            List<LeaseResult> results = send(call(ends), latestExpiry(ends), ends);
            for (int index = 0; index < Math.min(ends.size(), results.size()); index++) {
                reported(ends.get(index), results.get(index).outcome());
            }
        } catch (TidegateException error) {
            failed(ends, error);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private static HttpCall call(List<EndedJob> ends) {
        Object first = ends.get(0).report();
        if (first instanceof Done) {
            List<Done> done = ends.stream().map(it -> (Done) it.report()).toList();
            return HttpCall.jsonBytes("POST", "/ack", LeaseBodies.ack(done));
        }
        if (first instanceof Failed) {
            List<Failed> failed = ends.stream().map(it -> (Failed) it.report()).toList();
            return HttpCall.jsonBytes("POST", "/fail", LeaseBodies.fail(failed));
        }
        List<String> leases = ends.stream().map(it -> it.held().job().lease()).toList();
        Duration delay = ((EndedJob.Released) first).delay();
        return HttpCall.jsonBytes("POST", "/release", LeaseBodies.leases(leases, "delay", delay));
    }

    private static long latestExpiry(List<EndedJob> ends) {
        long latest = ends.get(0).held().expiresAt();
        for (EndedJob ended : ends) {
            long expiresAt = ended.held().expiresAt();
            latest = expiresAt - latest > 0 ? expiresAt : latest;
        }
        return latest;
    }

    private List<LeaseResult> send(HttpCall call, long until, List<EndedJob> ends) throws InterruptedException {
        RepeatDelays delays = RepeatDelays.endless(FIRST_DELAY, LONGEST_DELAY);
        while (true) {
            try {
                return ClientCore.await(core.sendOnce(call)).json(Heartbeats.Results.class).results();
            } catch (TidegateException error) {
                long leftMs = (until - System.nanoTime()) / 1_000_000;
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                if (!error.isTemporary() || leftMs <= 0) {
                    throw error;
                }
                ends.forEach(EndedJob::repeated);
                Duration delay = delays.nextAfter(error);
                Thread.sleep(Math.min(leftMs, (delay == null ? RETRY_AFTER_MAX : delay).toMillis()));
            }
        }
    }

    /** A report that is repeated is `lost` or `gone` if the server has carried out the first one. */
    void reported(EndedJob ended, LeaseOutcome outcome) {
        if (outcome == LeaseOutcome.LOST && !ended.isRepeated()) {
            Job job = ended.held().job();
            LOG.log(Level.WARNING, () -> "the lease expired before the end of " + job + " was reported; it runs again");
            listeners.tell(it -> it.onNotReported(job, null));
        }
    }

    private void failed(List<EndedJob> ends, TidegateException error) {
        if (isOfContent(error.status()) && ends.size() > 1) {
            // One end that is not accepted must not keep the others from being reported.
            ends.forEach(ended -> report(List.of(ended)));
        } else if (isOfContent(error.status()) && ends.get(0).report() instanceof Done) {
            String text = "the work is done, but the result was not accepted: " + error.getMessage();
            report(List.of(EndedJob.failed(ends.get(0).held(), text, null, true)));
        } else {
            LOG.log(Level.ERROR, () -> "failed to report the ends of " + ends.size() + " jobs: " + error.getMessage());
            ends.forEach(ended -> listeners.tell(it -> it.onNotReported(ended.held().job(), error)));
        }
    }

    private static boolean isOfContent(int status) {
        return status == 400 || status == 413 || status == 415 || status == 422;
    }
}
