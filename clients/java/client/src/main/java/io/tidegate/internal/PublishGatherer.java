package io.tidegate.internal;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.error.TidegateException;
import io.tidegate.model.PublishedJob;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;

/**
 * Sends publishes that meet together. While a publish to a queue is in flight, further ones to the queue gather, and
 * are sent as one batch when it is answered, or has failed once: a publish that is repeated does not hold up others.
 */
public final class PublishGatherer {
    private static final int BATCH_JOBS_MAX = 100;
    private static final int BATCH_BYTES_MAX = 1 << 20;

    private final ClientCore core;
    /** The publishes that wait, of the queues to which a publish is in flight. Guarded by itself. */
    private final Map<String, Queue<Waiting>> gathered = new HashMap<>();

    /** Publishes with this client. */
    public PublishGatherer(ClientCore core) {
        this.core = core;
    }

    private record Waiting(PublishRequest request, CompletableFuture<PublishedJob> result) {
        void fail(TidegateException error) {
            result.completeExceptionally(error);
        }
    }

    /** Publishes a job: at once, or together with others. */
    public CompletableFuture<PublishedJob> publish(PublishRequest request) {
        Waiting job = new Waiting(request, new CompletableFuture<>());
        boolean mayGather = request.safety() == Safety.REPEATABLE && request.fitsBatch();
        if (!mayGather) {
            sendAlone(job, () -> {});
        } else if (isFirst(job)) {
            sendAlone(job, () -> sendGathered(request.queue()));
        }
        return job.result;
    }

    /** Whether no other publish to the queue is in flight. If one is, the job is added to the jobs that wait. */
    private boolean isFirst(Waiting job) {
        synchronized (gathered) {
            Queue<Waiting> others = gathered.get(job.request.queue());
            if (others == null) {
                gathered.put(job.request.queue(), new ArrayDeque<>());
                return true;
            }
            others.add(job);
            return false;
        }
    }

    private void sendGathered(String queue) {
        List<Waiting> batch = take(queue);
        if (batch.size() == 1) {
            sendAlone(batch.get(0), () -> sendGathered(queue));
        } else if (!batch.isEmpty()) {
            sendTogether(batch, () -> sendGathered(queue));
        }
    }

    private List<Waiting> take(String queue) {
        List<Waiting> batch = new ArrayList<>();
        synchronized (gathered) {
            Queue<Waiting> waiting = gathered.get(queue);
            long bytes = 0;
            while (!waiting.isEmpty() && batch.size() < BATCH_JOBS_MAX) {
                bytes += waiting.peek().request.estimatedBytes();
                if (bytes > BATCH_BYTES_MAX && !batch.isEmpty()) {
                    break;
                }
                Waiting job = waiting.remove();
                // Of a caller that was interrupted.
                if (!job.result.isDone()) {
                    batch.add(job);
                }
            }
            if (batch.isEmpty()) {
                gathered.remove(queue);
            }
        }
        return batch;
    }

    private void sendAlone(Waiting job, Runnable afterFirst) {
        if (!job.request.fitsHeaders()) {
            sendTogether(List.of(job), afterFirst);
            return;
        }
        HttpCall call = job.request.single(null);
        core.send(call, job.request.safety(), afterFirst).whenComplete((reply, error) -> {
            try {
                if (error != null) {
                    job.fail(ClientCore.failure(error));
                } else {
                    job.result.complete(reply.json(PublishedJob.class));
                }
            } catch (TidegateException unreadable) {
                job.fail(unreadable);
            }
        });
    }

    private void sendTogether(List<Waiting> batch, Runnable afterFirst) {
        List<PublishRequest> requests = batch.stream().map(Waiting::request).toList();
        boolean isSafe = requests.stream().allMatch(it -> it.safety() == Safety.REPEATABLE);
        Safety safety = isSafe ? Safety.REPEATABLE : Safety.ONLY_IF_NOT_APPLIED;
        core.send(PublishRequest.batch(requests, false), safety, afterFirst).whenComplete((reply, error) -> {
            if (error == null) {
                distribute(batch, reply);
            } else {
                batchFailed(batch, ClientCore.failure(error));
            }
        });
    }

    private void distribute(List<Waiting> batch, HttpReply reply) {
        JsonNode results;
        try {
            results = Json.WIRE.readTree(reply.body()).path("results");
        } catch (IOException error) {
            batch.forEach(job -> job.fail(Json.unreadable(error)));
            return;
        }
        for (int index = 0; index < batch.size(); index++) {
            JsonNode result = results.path(index);
            if (result.has("problem")) {
                jobFailed(batch.get(index), Problems.of(result.get("problem")), batch.size() > 1);
            } else {
                complete(batch.get(index), result);
            }
        }
    }

    private static void complete(Waiting job, JsonNode result) {
        try {
            job.result.complete(Json.WIRE.treeToValue(result, PublishedJob.class));
        } catch (IOException error) {
            job.fail(Json.unreadable(error));
        }
    }

    /** A job that failed in a batch is repeated as if it had been sent alone. */
    private void jobFailed(Waiting job, TidegateException error, boolean wasTogether) {
        if (wasTogether && job.request.safety().isRepeatedAfter(error)) {
            sendAlone(job, () -> {});
        } else {
            job.fail(error);
        }
    }

    /** One job that is not valid must not keep the others from being published: each is sent alone. */
    private void batchFailed(List<Waiting> batch, TidegateException error) {
        boolean isOfOneJob = batch.size() > 1 && isOfContent(error.status());
        for (Waiting job : batch) {
            if (isOfOneJob) {
                sendAlone(job, () -> {});
            } else {
                job.fail(error);
            }
        }
    }

    private static boolean isOfContent(int status) {
        return status == 400 || status == 413 || status == 415 || status == 422;
    }
}
