package io.tidegate;

import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.PublishGatherer;
import io.tidegate.internal.PublishRequest;
import io.tidegate.model.PublishedJob;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A job to publish. Nothing happens until {@link #send}, {@link #sendAsync} or {@link #call}.
 *
 * <p>While a publish to a queue is in flight, further ones to this queue gather, and are sent as one batch of up to 100
 * jobs and 1 MiB when it is answered. Each has its own answer or exception.
 *
 * <p>A publish is repeated after errors of the connection ({@link RepeatLimits}). A publish without a key gets a random
 * idempotency key for that. The answer to a repetition of a publish with a key may be {@code EXISTS} or
 * {@code REPLACED} for a job that the first request created.
 */
public final class Publish extends JobOptions<Publish> {
    private final ClientCore core;
    private final PublishGatherer gatherer;
    private final String queue;

    Publish(ClientCore core, PublishGatherer gatherer, String queue, Object payload) {
        super(payload);
        this.core = core;
        this.gatherer = gatherer;
        this.queue = queue;
    }

    /**
     * Publishes the job, and waits for the answer.
     *
     * @return the job
     * @throws TidegateException if it is not published, or it is not known whether it is
     */
    public PublishedJob send() {
        return ClientCore.await(sendAsync());
    }

    /**
     * Publishes the job.
     *
     * @return the job, or a {@link TidegateException}. The future is completed by a thread of the client: do not block
     *     it in a callback.
     */
    public CompletableFuture<PublishedJob> sendAsync() {
        return gatherer.publish(request(core, queue));
    }

    /**
     * Publishes the job, and waits until a worker has done it. Needs the scope {@code read} besides {@code publish}.
     *
     * <p>With a key, a job that exists already is waited for. If the server gives no answer, the call ends with an
     * exception 2 s after the wait at the latest; the job may be stored. Use {@code retain} if you want to ask again
     * later than 10 s after the job is done.
     *
     * @param wait how long to wait, up to a year
     * @return the result, which is pending if the job is not done in time
     * @throws io.tidegate.error.ConflictException if the job is dead
     * @throws io.tidegate.error.NotFoundException if the job was cancelled, or its result is not kept
     * @throws TidegateException if the request fails
     */
    public JobResult call(Duration wait) {
        ResultWait waiting = new ResultWait(wait);
        PublishRequest request = request(core, queue);
        if (!request.fitsHeaders()) {
            String id = ClientCore.await(gatherer.publish(request)).id();
            return new JobHandle(core, queue, JobHandle.pathOfId(queue, id)).result(waiting);
        }
        Duration first = waiting.ofRequest();
        HttpReply reply =
                core.callWithin(request.single(first), request.safety(), waiting.left().plus(ResultWait.MARGIN));
        JobResult result = ResultWait.result(core, reply);
        if (!result.isPending() || waiting.isOver()) {
            return result;
        }
        return new JobHandle(core, queue, JobHandle.pathOfId(queue, result.jobId())).result(waiting);
    }
}
