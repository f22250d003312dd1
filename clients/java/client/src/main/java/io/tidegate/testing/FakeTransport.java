package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Json;
import io.tidegate.internal.Timer;
import io.tidegate.internal.Transport;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Answers requests from a store in memory, as a server does. */
final class FakeTransport implements Transport {
    /** How often a request that waits looks again, by the clock of the system. */
    private static final Duration POLL = Duration.ofMillis(5);

    private static final int ACCEPTED = 202;

    private final FakeStore store;

    FakeTransport(FakeStore store) {
        this.store = store;
    }

    @Override
    public void close() {
        // There are no connections.
    }

    @Override
    public CompletableFuture<HttpReply> exchange(HttpCall call, Duration limit) {
        CompletableFuture<HttpReply> result = new CompletableFuture<>();
        answer(call, System.nanoTime() + Timer.nanos(call.serverWait()), result);
        return result;
    }

    private void answer(HttpCall call, long deadline, CompletableFuture<HttpReply> result) {
        HttpReply reply = reply(call);
        boolean isEmpty = reply.status() == ACCEPTED
                || call.path().equals("/reserve") && reply.json(JsonNode.class).path("jobs").isEmpty();
        boolean waits = isEmpty && call.method().matches("GET|POST") && deadline - System.nanoTime() > 0;
        if (!waits) {
            result.complete(reply);
        } else if (!result.isDone()) {
            Timer.after(POLL, () -> answer(again(call, reply), deadline, result));
        }
    }

    /** A publish that waits for the result is not carried out again: then the result is asked for. */
    private static HttpCall again(HttpCall call, HttpReply reply) {
        if (reply.status() != ACCEPTED || call.method().equals("GET")) {
            return call;
        }
        String jobs = call.path().split("/call\\?", 2)[0];
        return HttpCall.get(jobs + "/" + reply.json(JsonNode.class).path("id").asText() + "/result");
    }

    private HttpReply reply(HttpCall call) {
        try {
            return new FakeRequest(store, call).reply();
        } catch (FakeProblem problem) {
            return problem(problem);
        } catch (IOException invalid) {
            return problem(new FakeProblem(400, "invalid_body", invalid.getMessage()));
        }
    }

    private static HttpReply problem(FakeProblem problem) {
        return FakeRequest.json(problem.status(), FakeRequest.document(problem));
    }
}
