package io.tidegate;

import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Json;
import io.tidegate.internal.Names;
import io.tidegate.internal.Safety;
import io.tidegate.internal.WireTime;
import io.tidegate.model.CancelledJob;
import io.tidegate.model.ChangedJob;
import io.tidegate.model.IfRunning;
import io.tidegate.model.JobDetails;
import io.tidegate.model.JobExplanation;
import java.time.Duration;

/**
 * A job of a queue, by its id or its key. All calls throw a {@link io.tidegate.error.NotFoundException} if there is no
 * such job, and other {@link TidegateException}s.
 */
public final class JobHandle {
    private final ClientCore core;
    private final String queue;
    private final Path path;

    /**
     * The path of a job.
     *
     * @param begin the path
     * @param query the query behind it, without the question mark; may be empty
     */
    record Path(String begin, String query) {}

    JobHandle(ClientCore core, String queue, Path path) {
        this.core = core;
        this.queue = queue;
        this.path = path;
    }

    static Path pathOfId(String queue, String id) {
        return new Path("/queues/" + queue + "/jobs/" + Names.encode(id), "");
    }

    /** Servers and proxies decode a slash in a path, so a key with one is a parameter. */
    static Path pathOfKey(String queue, String key) {
        String encoded = Names.encode(key);
        String begin = "/queues/" + queue + "/jobs/";
        return key.contains("/") ? new Path(begin + "-", "key=" + encoded) : new Path(begin + "key:" + encoded, "");
    }

    /**
     * The name of the queue.
     *
     * @return the name
     */
    public String queue() {
        return queue;
    }

    /**
     * All about the job, except its payload. Jobs by id need the scope {@code read}.
     *
     * @return the job
     */
    public JobDetails show() {
        return core.call(HttpCall.get(at(""))).json(JobDetails.class);
    }

    /**
     * Why the job is not delivered now, or not any more.
     *
     * @return the explanation
     */
    public JobExplanation explain() {
        return core.call(HttpCall.get(at("/explain"))).json(JobExplanation.class);
    }

    /**
     * The payload.
     *
     * @return the payload
     */
    public Payload payload() {
        HttpReply reply = core.call(HttpCall.get(at("/payload")));
        String type = reply.header("Content-Type");
        return Payload.bytes(reply.body(), type == null ? "application/octet-stream" : type, core.mapper());
    }

    /**
     * Waits until the job is done, and returns its result. It changes nothing.
     *
     * @param wait how long to wait, up to a year; zero asks once
     * @return the result, which is pending if the job is not done in time
     * @throws io.tidegate.error.ConflictException if the job is dead
     * @throws io.tidegate.error.NotFoundException if the job was cancelled, or its result is not kept
     */
    public JobResult result(Duration wait) {
        return result(new ResultWait(wait));
    }

    JobResult result(ResultWait waiting) {
        while (true) {
            Duration wait = waiting.ofRequest();
            HttpCall call = HttpCall.get(at("/result", "wait=" + WireTime.text("wait", wait)));
            Duration limit = wait.plus(ResultWait.MARGIN);
            HttpReply reply = core.callWithin(call.waiting(wait), Safety.REPEATABLE, limit);
            JobResult result = ResultWait.result(core, reply);
            if (!result.isPending() || waiting.isOver()) {
                return result;
            }
        }
    }

    /**
     * Changes when a job that waits is due, or its priority.
     *
     * @param change the change
     * @return the job
     */
    public ChangedJob change(JobChange change) {
        return core.call(HttpCall.json("PATCH", at(""), change.json())).json(ChangedJob.class);
    }

    /**
     * Makes a delayed job ready now.
     *
     * @return the job
     */
    public ChangedJob promote() {
        return core.call(HttpCall.of("POST", at("/promote"))).json(ChangedJob.class);
    }

    /**
     * Deletes the job, unless a worker holds it.
     *
     * @return the outcome
     * @throws io.tidegate.error.ConflictException {@code job_running} if a worker holds it
     */
    public CancelledJob cancel() {
        return cancel(at(""));
    }

    /**
     * Deletes the job.
     *
     * @param running the effect if a worker holds it
     * @return the outcome
     */
    public CancelledJob cancel(IfRunning running) {
        String name = Json.WIRE.valueToTree(running).asText();
        return cancel(at("", "running=" + name));
    }

    private CancelledJob cancel(String target) {
        return core.call(HttpCall.of("DELETE", target)).json(CancelledJob.class);
    }

    private String at(String rest) {
        return at(rest, "");
    }

    private String at(String rest, String parameter) {
        String both = path.query.isEmpty() || parameter.isEmpty() ? "" : "&";
        String query = path.query + both + parameter;
        return path.begin + rest + (query.isEmpty() ? "" : "?" + query);
    }
}
