package io.tidegate;

import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.LeaseBodies;
import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.LeaseBodies.Failed;
import io.tidegate.internal.ReserveAnswer;
import io.tidegate.model.LeaseResult;
import io.tidegate.model.LeasedJob;
import java.time.Duration;
import java.util.Collection;
import java.util.List;

/**
 * Jobs that this process holds, for programs that cannot use a {@code Worker}. Each call takes up to 1,000 leases of
 * any queues, returns one outcome for each in the same order, and is safe to repeat.
 */
public final class Leases {
    private final ClientCore core;

    Leases(ClientCore core) {
        this.core = core;
    }

    /**
     * Leases ready jobs.
     *
     * @param request which
     * @return the jobs; none if none came in time
     */
    public List<LeasedJob> reserve(Reserve request) {
        HttpCall call = HttpCall.json("POST", "/reserve", request.json()).waiting(request.longestWait());
        return ReserveAnswer.read(core.call(call).body(), core.mapper()).jobs();
    }

    /**
     * Acknowledges jobs: they are done.
     *
     * @param leases their leases
     * @return the outcomes
     */
    public List<LeaseResult> ack(Collection<String> leases) {
        return send("/ack", LeaseBodies.ack(leases.stream().map(it -> new Done(it, null)).toList()));
    }

    /**
     * Acknowledges a job with a result, which is kept as long as the job.
     *
     * @param lease its lease
     * @param result a {@link Payload}, a {@code byte[]}, or a value that becomes JSON; up to 256 KiB
     * @return the outcome
     */
    public LeaseResult ack(String lease, Object result) {
        Payload payload = result == null ? null : Payload.of(result, core.mapper());
        return send("/ack", LeaseBodies.ack(List.of(new Done(lease, payload)))).get(0);
    }

    /**
     * Reports that attempts have failed: the jobs are retried by their policies, or are dead.
     *
     * @param leases their leases
     * @param error the cause; a text of more than 1,024 bytes is cut
     * @return the outcomes
     */
    public List<LeaseResult> fail(Collection<String> leases, String error) {
        return fail(leases, error, null, false);
    }

    /**
     * Reports that attempts have failed, and when to try again.
     *
     * @param leases their leases
     * @param error the cause
     * @param retryIn the delay before the next attempt
     * @return the outcomes
     */
    public List<LeaseResult> retryIn(Collection<String> leases, String error, Duration retryIn) {
        return fail(leases, error, retryIn, false);
    }

    /**
     * Reports that no attempt can succeed: the jobs are dead.
     *
     * @param leases their leases
     * @param error the cause
     * @return the outcomes
     */
    public List<LeaseResult> dead(Collection<String> leases, String error) {
        return fail(leases, error, null, true);
    }

    private List<LeaseResult> fail(Collection<String> leases, String error, Duration retryIn, boolean isDead) {
        List<Failed> jobs =
                leases.stream().map(it -> new Failed(it, error, retryIn, isDead)).toList();
        return send("/fail", LeaseBodies.fail(jobs));
    }

    /**
     * Extends leases, and never shortens one.
     *
     * @param leases the leases
     * @param lease the new length from now on, or null for the length of the job or the policy
     * @return the outcomes
     */
    public List<LeaseResult> touch(Collection<String> leases, Duration lease) {
        return send("/touch", LeaseBodies.leases(leases, "lease", lease));
    }

    /**
     * Gives jobs back. It counts neither as a failure nor as a loss.
     *
     * @param leases their leases
     * @param delay when they are due again, from now on, or null for now
     * @return the outcomes
     */
    public List<LeaseResult> release(Collection<String> leases, Duration delay) {
        return send("/release", LeaseBodies.leases(leases, "delay", delay));
    }

    private List<LeaseResult> send(String path, byte[] body) {
        Results answer = core.call(HttpCall.jsonBytes("POST", path, body)).json(Results.class);
        return answer.results();
    }

    private record Results(List<LeaseResult> results) {}
}
