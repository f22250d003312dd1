package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.Payload;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Json;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A request of a worker. */
final class FakeLeaseRequest {
    private final FakeStore store;
    private final JsonNode body;

    FakeLeaseRequest(FakeStore store, JsonNode body) {
        this.store = store;
        this.body = body;
    }

    HttpReply reply(String verb) throws FakeProblem, IOException {
        return switch (verb) {
            case "reserve" -> FakeRequest.json(200, reserve());
            case "ack" -> results(ack(body.path("leases")));
            case "fail" -> results(fail(body.path("leases")));
            case "touch" -> results(touch());
            case "release" -> results(release());
            default -> throw new FakeProblem(404, "route_not_found", "the fake has no /" + verb);
        };
    }

    private static HttpReply results(ArrayNode results) {
        ObjectNode answer = Json.WIRE.createObjectNode();
        answer.set("results", results);
        return FakeRequest.json(200, answer);
    }

    private JsonNode reserve() throws IOException {
        ObjectNode answer = Json.WIRE.createObjectNode();
        JsonNode settle = body.path("settle");
        if (settle.isObject()) {
            ObjectNode settled = answer.putObject("settled");
            settled.set("ack", ack(settle.path("ack")));
            settled.set("fail", fail(settle.path("fail")));
        }
        List<String> queues = new ArrayList<>();
        body.path("queues").forEach(it -> queues.add(it.isTextual() ? it.asText() : it.path("name").asText()));
        Duration lease = FakeRequest.duration(body.path("lease"));
        ArrayNode jobs = answer.putArray("jobs");
        for (FakeEntry job : store.reserve(queues, body.path("max_jobs").asInt(1), lease)) {
            jobs.add(leased(job));
        }
        answer.set("now", Json.WIRE.valueToTree(store.now()));
        return answer;
    }

    private static JsonNode leased(FakeEntry job) throws IOException {
        ObjectNode view = Json.WIRE.createObjectNode();
        view.put("id", job.id).put("queue", job.queue).put("lease", job.lease);
        view.set("lease_until", Json.WIRE.valueToTree(job.leaseUntil));
        view.put("attempt", job.attempt).put("failures", job.errors.size()).put("losses", job.losses);
        view.set("run_at", Json.WIRE.valueToTree(job.runAt));
        view.set("created_at", Json.WIRE.valueToTree(job.createdAt));
        if (job.key != null) {
            view.put("key", job.key);
        }
        if (job.group() != null) {
            view.put("group", job.group());
        }
        view.set("attributes", Json.WIRE.valueToTree(job.attributes));
        view.put("content_type", job.payload.contentType());
        if (job.payload.isJson()) {
            return view.set("payload", Json.WIRE.readTree(job.payload.bytes()));
        }
        return view.put("payload_base64", job.payload.bytes());
    }

    private ArrayNode ack(JsonNode items) throws IOException {
        ArrayNode results = Json.WIRE.createArrayNode();
        for (JsonNode item : items) {
            boolean isPlain = item.isTextual();
            String lease = isPlain ? item.asText() : item.path("lease").asText();
            results.add(outcome(store.ack(lease, isPlain ? null : result(item))));
        }
        return results;
    }

    private static Payload result(JsonNode item) throws IOException {
        if (item.has("result_base64")) {
            String type = item.path("content_type").asText("application/octet-stream");
            return Payload.bytes(item.get("result_base64").binaryValue(), type);
        }
        return item.has("result") ? Payload.bytes(Json.write(item.get("result")), "application/json") : null;
    }

    private ArrayNode fail(JsonNode items) {
        ArrayNode results = Json.WIRE.createArrayNode();
        for (JsonNode item : items) {
            Duration retryIn = FakeRequest.duration(item.path("retry_in"));
            String error = item.path("error").asText();
            results.add(outcome(
                    store.fail(item.path("lease").asText(), error, retryIn, item.path("dead").asBoolean())));
        }
        return results;
    }

    private ArrayNode touch() {
        ArrayNode results = Json.WIRE.createArrayNode();
        Duration length = FakeRequest.duration(body.path("lease"));
        body.path("leases").forEach(it -> results.add(outcome(store.touch(it.asText(), length))));
        return results;
    }

    private ArrayNode release() {
        ArrayNode results = Json.WIRE.createArrayNode();
        Duration delay = FakeRequest.duration(body.path("delay"));
        Duration known = delay == null ? Duration.ZERO : delay;
        body.path("leases").forEach(it -> results.add(outcome(store.release(it.asText(), known))));
        return results;
    }

    private static ObjectNode outcome(FakeStore.Settled settled) {
        ObjectNode result = Json.WIRE.createObjectNode().put("outcome", settled.outcome());
        FakeEntry job = settled.job();
        if (settled.outcome().equals("retry")) {
            result.set("run_at", Json.WIRE.valueToTree(job.runAt));
        }
        if (settled.outcome().equals("extended")) {
            result.set("lease_until", Json.WIRE.valueToTree(job.leaseUntil));
            if (job.isCancelRequested) {
                result.put("cancel_requested", true);
            }
        }
        return result;
    }
}
