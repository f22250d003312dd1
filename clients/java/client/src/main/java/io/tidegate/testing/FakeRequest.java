package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.Payload;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.HttpReply;
import io.tidegate.internal.Json;
import io.tidegate.model.JobState;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** A request about queues and jobs. */
final class FakeRequest {
    private static final String ATTRIBUTE = "job-attr-";

    private final FakeStore store;
    private final HttpCall call;
    private final String[] path;
    private final Map<String, String> query = new HashMap<>();

    FakeRequest(FakeStore store, HttpCall call) {
        this.store = store;
        this.call = call;
        String[] parts = call.path().split("\\?", 2);
        this.path = parts[0].substring(1).split("/");
        if (parts.length > 1) {
            for (String parameter : parts[1].split("&")) {
                String[] pair = parameter.split("=", 2);
                query.put(pair[0], decode(pair[1]));
            }
        }
    }

    private static String decode(String text) {
        return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    HttpReply reply() throws FakeProblem, IOException {
        if (path.length == 1 && call.method().equals("POST")) {
            return new FakeLeaseRequest(store, Json.WIRE.readTree(call.body())).reply(path[0]);
        }
        if (!path[0].equals("queues") || path.length < 2) {
            throw noRoute();
        }
        String rest = path.length > 3 ? "/JOB" + (path.length > 4 ? "/" + path[4] : "") : "";
        boolean isOfJobs = path.length > 2 && path[2].equals("jobs");
        return switch (call.method() + " " + (isOfJobs ? "jobs" + rest : path.length > 2 ? path[2] : "")) {
            case "GET " -> json(200, queue());
            case "GET jobs" -> json(200, list());
            case "POST jobs" -> publish();
            case "GET jobs/JOB" -> json(200, Json.WIRE.valueToTree(job().details()));
            case "GET jobs/JOB/payload" -> payload(job().payload);
            case "GET jobs/JOB/result" -> result(job());
            case "DELETE jobs/JOB" -> cancel();
            case "PATCH jobs/JOB" -> change();
            case "POST jobs/JOB/promote" -> promote();
            case "POST jobs/JOB" -> publishMore();
            default -> throw noRoute();
        };
    }

    private FakeProblem noRoute() {
        return new FakeProblem(404, "route_not_found", "the fake has no " + call.method() + " " + call.path());
    }

    private FakeEntry job() throws FakeProblem {
        return store.find(path[1], decode(path[3]), query.get("key"));
    }

    private JsonNode queue() {
        ObjectNode view = Json.WIRE.createObjectNode().put("queue", path[1]);
        ObjectNode jobs = view.putObject("jobs");
        for (JobState state : JobState.values()) {
            if (state != JobState.UNKNOWN) {
                jobs.put(state.name().toLowerCase(Locale.ROOT), store.count(path[1], state));
            }
        }
        return view.put("paused", false).put("closed", false);
    }

    private JsonNode list() {
        ObjectNode page = Json.WIRE.createObjectNode();
        page.set(
                "items",
                Json.WIRE.valueToTree(
                        store.list(path[1], query.get("state"), query.get("key_prefix"), query.get("group"))));
        return page.putNull("next");
    }

    private HttpReply publish() throws FakeProblem, IOException {
        ObjectNode options = Json.WIRE.createObjectNode();
        for (Map.Entry<String, String> parameter : query.entrySet()) {
            boolean isObject = parameter.getKey().equals("retry");
            JsonNode value = isObject ? Json.WIRE.readTree(parameter.getValue()) : null;
            options.set(parameter.getKey(), value != null ? value : options.textNode(parameter.getValue()));
        }
        Map<String, String> attributes = new HashMap<>();
        String contentType = "application/octet-stream";
        for (Map.Entry<String, String> header : call.headers().entrySet()) {
            String name = header.getKey().toLowerCase(Locale.ROOT);
            if (name.startsWith(ATTRIBUTE)) {
                attributes.put(name.substring(ATTRIBUTE.length()), header.getValue());
            } else if (name.equals("idempotency-key")) {
                options.put("idempotency_key", header.getValue());
            } else if (name.equals("content-type")) {
                contentType = header.getValue();
            }
        }
        Payload payload = Payload.bytes(call.body(), contentType);
        FakeStore.Published published = store.publish(path[1], payload, attributes, options);
        if (path.length > 3) {
            return result(published.job());
        }
        boolean isNew = "created".equals(published.outcome().name().toLowerCase(Locale.ROOT));
        return json(isNew ? 201 : 200, answer(published));
    }

    private static JsonNode answer(FakeStore.Published published) {
        FakeEntry job = published.job();
        ObjectNode answer = Json.WIRE.createObjectNode().put("id", job.id).put("queue", job.queue);
        if (job.key != null) {
            answer.put("key", job.key);
        }
        answer.set("outcome", Json.WIRE.valueToTree(published.outcome()));
        answer.set("state", Json.WIRE.valueToTree(job.state));
        answer.set("run_at", Json.WIRE.valueToTree(job.runAt));
        answer.put("durability", "memory");
        return published.isReplayed() ? answer.put("replayed", true) : answer;
    }

    private HttpReply publishMore() throws FakeProblem, IOException {
        return switch (path[3]) {
            case "batch" -> batch();
            case "call" -> publish();
            default -> throw noRoute();
        };
    }

    private HttpReply batch() throws IOException {
        ObjectNode body = Json.WIRE.createObjectNode();
        ArrayNode results = body.putArray("results");
        for (JsonNode item : Json.WIRE.readTree(call.body()).path("jobs")) {
            results.add(publishItem(item));
        }
        return json(200, body);
    }

    private JsonNode publishItem(JsonNode item) throws IOException {
        Map<String, String> attributes = new HashMap<>();
        item.path("attributes").properties().forEach(it -> attributes.put(it.getKey(), it.getValue().asText()));
        try {
            return answer(store.publish(path[1], payloadOf(item), attributes, item));
        } catch (FakeProblem problem) {
            ObjectNode result = Json.WIRE.createObjectNode();
            result.set("problem", document(problem));
            return result;
        }
    }

    private static Payload payloadOf(JsonNode item) throws IOException {
        if (item.has("payload_base64")) {
            String type = item.path("content_type").asText("application/octet-stream");
            return Payload.bytes(item.get("payload_base64").binaryValue(), type);
        }
        return Payload.bytes(Json.write(item.get("payload")), "application/json");
    }

    private HttpReply result(FakeEntry job) throws FakeProblem {
        synchronized (store) {
            if (job.state == JobState.DEAD) {
                throw new FakeProblem(409, "job_dead", "The job is in the dead letter.");
            }
            if (job.doneAt == null && job.state != null) {
                ObjectNode pending = Json.WIRE.createObjectNode().put("id", job.id);
                return json(202, pending.set("state", Json.WIRE.valueToTree(job.state)));
            }
            if (job.doneAt == null) {
                throw FakeProblem.notFound();
            }
            Map<String, String> headers = new HashMap<>();
            headers.put("Tidegate-Job-Id", job.id);
            if (job.result == null) {
                return new HttpReply(204, headers::get, new byte[0]);
            }
            headers.put("Content-Type", job.result.contentType());
            return new HttpReply(200, headers::get, job.result.bytes());
        }
    }

    private HttpReply cancel() throws FakeProblem {
        FakeEntry job = job();
        JobState before = job.state;
        String outcome = store.cancel(job, query.getOrDefault("running", "refuse"));
        ObjectNode answer = Json.WIRE.createObjectNode().put("outcome", outcome).put("id", job.id);
        if (outcome.equals("cancelled")) {
            answer.set("was", Json.WIRE.valueToTree(before));
        }
        return json(outcome.equals("cancel_requested") ? 202 : 200, answer);
    }

    private HttpReply change() throws FakeProblem, IOException {
        FakeEntry job = job();
        store.change(job, Json.WIRE.readTree(call.body()));
        return json(200, changed(job, "changed"));
    }

    private HttpReply promote() throws FakeProblem {
        FakeEntry job = job();
        return json(200, changed(job, store.promote(job)));
    }

    private static JsonNode changed(FakeEntry job, String outcome) {
        ObjectNode answer = Json.WIRE.createObjectNode().put("id", job.id).put("outcome", outcome);
        answer.set("state", Json.WIRE.valueToTree(job.state));
        return answer.set("run_at", Json.WIRE.valueToTree(job.runAt));
    }

    private static HttpReply payload(Payload payload) {
        Map<String, String> headers = Map.of("Content-Type", payload.contentType());
        return new HttpReply(200, headers::get, payload.bytes());
    }

    static HttpReply json(int status, JsonNode body) {
        return new HttpReply(status, name -> null, Json.write(body));
    }

    static JsonNode document(FakeProblem problem) {
        return Json.WIRE.createObjectNode()
                .put("status", problem.status())
                .put("code", problem.code())
                .put("detail", problem.getMessage())
                .put("applied", "no");
    }

    static Duration duration(JsonNode value) {
        return value.isTextual() ? FakeEntry.parse(value.asText()) : null;
    }
}
