package io.tidegate.worker;

import io.tidegate.Payload;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.Telemetry;
import io.tidegate.worker.WorkerListener.End;
import java.time.Duration;

/** Runs handlers, and turns their ends into reports. */
final class JobRunner {
    private final WorkerSettings settings;
    private final LeaseTable leases;
    private final Reports reports;

    JobRunner(WorkerSettings settings, LeaseTable leases, Reports reports) {
        this.settings = settings;
        this.leases = leases;
        this.reports = reports;
    }

    /** Runs the handler of a job that is in the table of leases, and reports its end. */
    void run(HeldJob held) {
        Job job = held.job();
        long begin = System.nanoTime();
        held.start(settings.maxRun(), begin);
        settings.listeners().tell(it -> it.onStarted(job));
        Payload result = null;
        Throwable error = null;
        job.enter();
        try (Telemetry.Scope ignored = Telemetry.enter(job.traceParent().orElse(null))) {
            result = result(call(job, 0));
        } catch (Throwable thrown) {
            error = thrown;
        } finally {
            job.leave();
        }
        EndedJob ended = error == null ? EndedJob.done(held, result) : failed(held, error);
        End end = report(ended, error);
        Duration took = Duration.ofNanos(System.nanoTime() - begin);
        Throwable thrown = error;
        settings.listeners().tell(it -> it.onEnded(job, end, took, thrown));
        if (error instanceof VirtualMachineError fatal) {
            throw fatal;
        }
    }

    private Object call(Job job, int index) throws Exception {
        if (index == settings.middleware().size()) {
            return settings.routes().get(job.queue()).run(job);
        }
        return settings.middleware().get(index).handle(job, () -> call(job, index + 1));
    }

    /** The work is done, and would be done again: a result that is not JSON makes the job dead. */
    private Payload result(Object value) {
        try {
            return value == null ? null : Payload.of(value, settings.core().mapper());
        } catch (InvalidRequestException noJson) {
            throw new Dead("the work is done, but its result is not valid: " + noJson.detail());
        }
    }

    private EndedJob failed(HeldJob held, Throwable error) {
        AbortReason reason = held.job().abortReason().orElse(null);
        if (reason == AbortReason.STOPPING) {
            return EndedJob.released(held, null);
        }
        if (error instanceof Snooze snooze) {
            return EndedJob.released(held, snooze.delay());
        }
        if (error instanceof RetryIn retry) {
            return EndedJob.failed(held, retry.getMessage(), retry.delay(), false);
        }
        if (reason == AbortReason.MAX_RUN) {
            String text = "the handler did not end within " + settings.maxRun().toMillis() + " ms";
            return EndedJob.failed(held, text, null, false);
        }
        return EndedJob.failed(held, Fail.text(error), null, error instanceof Dead);
    }

    private End report(EndedJob ended, Throwable error) {
        reports.awaitRoom();
        // The job stays in the table until there is room, so that its lease is extended, and a stop gives it back.
        if (!leases.remove(ended.held())) {
            reports.giveRoom();
            return End.LOST;
        }
        reports.add(ended.withRoom());
        if (error == null) {
            return End.DONE;
        }
        boolean isReleased = ended.report() instanceof EndedJob.Released;
        return isReleased ? End.RELEASED : error instanceof Dead ? End.DEAD : End.FAILED;
    }
}
