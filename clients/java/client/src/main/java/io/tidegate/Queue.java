package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.error.Applied;
import io.tidegate.error.Failure;
import io.tidegate.error.InterruptedRequestException;
import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Names;
import io.tidegate.internal.Pages;
import io.tidegate.internal.Safety;
import io.tidegate.model.ActedJobs;
import io.tidegate.model.JobDetails;
import io.tidegate.model.Policy;
import io.tidegate.model.PurgeState;
import io.tidegate.model.QueueView;
import java.util.stream.Stream;

/** A queue. It exists by being used. All calls throw {@link TidegateException}s. */
public final class Queue {
    private static final int PAGE_JOBS = 100;

    private final ClientCore core;
    private final String name;

    Queue(ClientCore core, String name) {
        this.core = core;
        this.name = Names.check("queue", name);
    }

    /**
     * The name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * A job by its id. No request is sent.
     *
     * @param id the id
     * @return the job, whether it exists or not
     */
    public JobHandle job(String id) {
        return new JobHandle(core, name, JobHandle.pathOfId(name, Names.check("job", id)));
    }

    /**
     * A job by its key. No request is sent.
     *
     * @param key the key
     * @return the job, whether it exists or not
     */
    public JobHandle jobWithKey(String key) {
        return new JobHandle(core, name, JobHandle.pathOfKey(name, key));
    }

    /**
     * The numbers of jobs, and whether the queue is paused or closed.
     *
     * @return the queue; one that was never used has zeros
     */
    public QueueView show() {
        return core.call(HttpCall.get(path(""))).json(QueueView.class);
    }

    /**
     * The policy.
     *
     * @return the policy, with its version
     */
    public Policy policy() {
        return policy(core.call(HttpCall.get(path("/policy"))));
    }

    /**
     * Changes the policy. It is in effect everywhere within a second.
     *
     * @param change the change
     * @return the whole policy
     */
    public Policy changePolicy(PolicyChange change) {
        return policy(core.call(HttpCall.json("PATCH", path("/policy"), change.json())));
    }

    /**
     * Changes the policy, if it has this version.
     *
     * @param change the change
     * @param revision the version, of {@link Policy#revision}; {@code 0} if the queue has no policy yet
     * @return the whole policy
     * @throws io.tidegate.error.ConflictException {@code version_mismatch} if it has another version
     */
    public Policy changePolicyIf(PolicyChange change, String revision) {
        HttpCall call = HttpCall.json("PATCH", path("/policy"), change.json());
        // A repetition of a change that was made would find another version.
        return policy(core.call(call.header("If-Match", "\"" + revision + "\""), Safety.ONLY_IF_NOT_APPLIED));
    }

    private static Policy policy(HttpReply reply) {
        String etag = reply.header("ETag");
        return reply.json(Policy.class).withRevision(etag == null ? null : etag.replace("\"", ""));
    }

    /**
     * Deletes all ready jobs, or all dead ones. It is not repeated if its answer is lost.
     *
     * @param state which
     * @return how many
     */
    public long purge(PurgeState state) {
        ObjectNode body = JsonNodeFactory.instance.objectNode();
        body.put("state", state == PurgeState.READY ? "ready" : "dead");
        return count(HttpCall.json("POST", path("/purge"), body), "deleted");
    }

    /**
     * Brings all dead jobs back, with all their attempts. It is not repeated if its answer is lost.
     *
     * @return how many
     */
    public long respawn() {
        return respawn(null, null);
    }

    /**
     * Brings dead jobs back, the oldest first. It is not repeated if its answer is lost.
     *
     * @param limit the most jobs, or null for all
     * @param ratePerSecond how many become due each second, or null for all now
     * @return how many
     */
    public long respawn(Long limit, Double ratePerSecond) {
        ObjectNode body = JsonNodeFactory.instance.objectNode();
        if (limit != null) {
            body.put("limit", limit);
        }
        if (ratePerSecond != null) {
            body.put("rate_per_second", ratePerSecond);
        }
        return count(HttpCall.json("POST", path("/respawn"), body), "respawned");
    }

    /** The number in the answer to a repetition would be wrong. */
    private long count(HttpCall call, String field) {
        return core.call(call, Safety.ONLY_IF_NOT_APPLIED).json(JsonNode.class).path(field).asLong();
    }

    /**
     * Deletes the queue with its policy, if it has no jobs.
     *
     * @throws io.tidegate.error.ConflictException {@code queue_not_empty} if it has jobs
     */
    public void delete() {
        core.call(HttpCall.of("DELETE", path("")));
    }

    /**
     * The jobs that match a filter. Pages are read as the stream is consumed; a page may be sought for long, since
     * there is no index.
     *
     * @param filter which jobs
     * @return the jobs; their history has the last failure only
     */
    public Stream<JobDetails> jobs(JobFilter filter) {
        return jobs(filter, PAGE_JOBS);
    }

    /**
     * The jobs that match a filter, in pages of a size.
     *
     * @param filter which jobs
     * @param pageSize the most jobs of a page, 1 to 1,000
     * @return the jobs
     */
    public Stream<JobDetails> jobs(JobFilter filter, int pageSize) {
        String query = filter.query();
        String rest = query.isEmpty() ? "" : "&" + query;
        return Pages.stream(core, path("/jobs?limit=" + pageSize + rest), JobDetails.class);
    }

    /**
     * Does something with all jobs that match a filter, in as many requests as that takes. It may be interrupted and
     * begun again.
     *
     * @param action what, and with which jobs
     * @return the numbers of all requests together
     */
    public ActedJobs act(JobAction action) {
        long matched = 0;
        long changed = 0;
        String cursor = null;
        while (true) {
            HttpCall call = HttpCall.json("POST", path("/jobs/act"), action.from(cursor));
            ActAnswer answer = core.call(call).json(ActAnswer.class);
            matched += answer.matched;
            changed += answer.changed;
            cursor = answer.next;
            if (cursor == null) {
                return new ActedJobs(matched, changed);
            }
            pause(answer.waitMs);
        }
    }

    /** A respawn at a rate is only a few seconds ahead of the time. */
    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            Failure failure = Failure.withoutAnswer(Applied.YES, "interrupted between two parts of an action");
            throw new InterruptedRequestException(failure, interrupted);
        }
    }

    private record ActAnswer(long matched, long changed, String next, long waitMs) {}

    private String path(String rest) {
        return "/queues/" + name + rest;
    }
}
