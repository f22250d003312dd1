package io.tidegate.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.BatchJob;
import io.tidegate.BatchResult;
import io.tidegate.JobAction;
import io.tidegate.JobChange;
import io.tidegate.JobFilter;
import io.tidegate.JobHandle;
import io.tidegate.NewKey;
import io.tidegate.Payload;
import io.tidegate.PolicyChange;
import io.tidegate.Publish;
import io.tidegate.Queue;
import io.tidegate.Reserve;
import io.tidegate.Schedule;
import io.tidegate.TidegateClient;
import io.tidegate.internal.Json;
import io.tidegate.model.IfRunning;
import io.tidegate.model.LeasedJob;
import io.tidegate.model.Policy;
import io.tidegate.model.PurgeState;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;

/** The commands that use the client. */
final class Commands {
    private final TidegateClient client;

    Commands(TidegateClient client) {
        this.client = client;
    }

    JsonNode run(JsonNode command) throws Exception {
        String verb = command.path("do").asText();
        return switch (verb) {
            case "publish" -> wire(publish(command).send());
            case "publish_batch" -> publishBatch(command);
            case "publish_many" -> publishMany(command);
            case "call" -> Wire.result("result", publish(command).call(Wire.duration(command, "wait_ms")));
            case "reserve" -> reserve(command);
            case "ack" -> wire(client.leases().ack(leases(command)));
            case "touch" -> wire(client.leases().touch(leases(command), Wire.duration(command, "lease_ms")));
            case "release" -> wire(client.leases().release(leases(command), Wire.duration(command, "delay_ms")));
            case "fail" -> fail(command);
            case "show" -> wire(job(command).show());
            case "explain" -> wire(job(command).explain());
            case "payload" -> Wire.put(Wire.MAPPER.createObjectNode(), "payload", job(command).payload());
            case "result" -> result(command);
            case "promote" -> wire(job(command).promote());
            case "change" -> wire(job(command).change(change(command.path("options"))));
            case "cancel" -> cancel(command);
            case "list_jobs" -> listJobs(command);
            case "act" -> act(command);
            default -> runOfNamespace(verb, command);
        };
    }

    private JsonNode runOfNamespace(String verb, JsonNode command) {
        String name = command.path("name").asText();
        return switch (verb) {
            case "queue" -> wire(queue(command).show());
            case "queues" -> list(client.queues());
            case "policy" -> policy(queue(command).policy());
            case "set_policy" -> setPolicy(command);
            case "delete_queue" -> {
                queue(command).delete();
                yield Wire.MAPPER.createObjectNode().put("outcome", "deleted");
            }
            case "purge" -> purge(command);
            case "respawn" -> respawn(command);
            case "set_schedule" -> wire(client.schedule(name).set(Schedule.ofJson(command.path("schedule"))));
            case "schedule" -> wire(client.schedule(name).show());
            case "schedules" -> list(client.schedules());
            case "next_runs" -> nextRuns(command);
            case "delete_schedule" -> {
                client.schedule(name).delete();
                yield Wire.MAPPER.createObjectNode().put("outcome", "deleted");
            }
            case "create_key" -> wire(client.keys().create(NewKey.ofJson(command.path("key"))));
            case "keys" -> list(client.keys().list());
            case "revoke_key" -> {
                String id = command.path("key_id").asText();
                client.keys().revoke(id);
                yield Wire.MAPPER.createObjectNode().put("outcome", "revoked").put("id", id);
            }
            default -> throw new IllegalArgumentException("no command " + verb);
        };
    }

    /** An answer of the client as the server wrote it. */
    private static JsonNode wire(Object answer) {
        return Json.WIRE.valueToTree(answer);
    }

    private static JsonNode list(Stream<?> items) {
        return wire(items.toList());
    }

    private Queue queue(JsonNode command) {
        return client.queue(command.path("queue").asText());
    }

    private JobHandle job(JsonNode command) {
        JsonNode job = command.path("job");
        return job.has("key")
                ? queue(command).jobWithKey(job.get("key").asText())
                : queue(command).job(job.path("id").asText());
    }

    private Publish publish(JsonNode command) throws IOException {
        return Wire.withOptions(client.publish(command.path("queue").asText(), Wire.payload(command)), command);
    }

    private JsonNode publishBatch(JsonNode command) throws IOException {
        List<BatchJob> jobs = new ArrayList<>();
        for (JsonNode job : command.path("jobs")) {
            jobs.add(Wire.withOptions(BatchJob.of(Wire.payload(job)), job));
        }
        String queue = command.path("queue").asText();
        if (command.path("atomic").asBoolean()) {
            return wire(client.publishAtomically(queue, jobs));
        }
        ArrayNode results = Wire.MAPPER.createArrayNode();
        for (BatchResult result : client.publishBatch(queue, jobs)) {
            if (result.error().isPresent()) {
                results.addObject().set("error", Wire.error(result.error().get()));
            } else {
                results.add(wire(result.job()));
            }
        }
        return results;
    }

    private JsonNode publishMany(JsonNode command) throws InterruptedException {
        int count = command.path("count").asInt();
        int concurrency = command.path("concurrency").asInt(1);
        String queue = command.path("queue").asText();
        Payload payload = Payload.bytes(new byte[command.path("payload_bytes").asInt()], "application/octet-stream");
        Semaphore free = new Semaphore(concurrency);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int published = 0; published < count && failure.get() == null; published++) {
            free.acquire();
            client.publish(queue, payload).sendAsync().whenComplete((job, error) -> {
                if (error != null) {
                    failure.compareAndSet(null, error);
                }
                free.release();
            });
        }
        free.acquire(concurrency);
        if (failure.get() instanceof RuntimeException error) {
            throw error;
        }
        return Wire.MAPPER.createObjectNode().put("published", count);
    }

    private JsonNode reserve(JsonNode command) {
        List<String> queues = new ArrayList<>();
        command.path("queues").forEach(queue -> queues.add(queue.asText()));
        Reserve request = Reserve.from(queues);
        if (command.has("max_jobs")) {
            request.maxJobs(command.get("max_jobs").asInt());
        }
        if (command.has("wait_ms")) {
            request.waitFor(Wire.duration(command, "wait_ms"));
        }
        if (command.has("lease_ms")) {
            request.lease(Wire.duration(command, "lease_ms"));
        }
        ArrayNode jobs = Wire.MAPPER.createArrayNode();
        client.leases().reserve(request).forEach(job -> jobs.add(leased(job)));
        return jobs;
    }

    private static ObjectNode leased(LeasedJob job) {
        ObjectNode view = Wire.MAPPER.createObjectNode();
        view.put("id", job.id()).put("queue", job.queue()).put("lease", job.lease());
        view.put("attempt", job.attempt()).put("failures", job.failures());
        view.put("content_type", job.payload().contentType());
        view.set("attributes", Wire.MAPPER.valueToTree(job.attributes()));
        if (job.key() != null) {
            view.put("key", job.key());
        }
        if (job.group() != null) {
            view.put("group", job.group());
        }
        return Wire.put(view, "payload", job.payload());
    }

    private static List<String> leases(JsonNode command) {
        List<String> leases = new ArrayList<>();
        command.path("leases").forEach(lease -> leases.add(lease.asText()));
        return leases;
    }

    private JsonNode fail(JsonNode command) {
        String error = command.path("error").asText();
        Duration retryIn = Wire.duration(command, "retry_in_ms");
        if (command.path("dead").asBoolean()) {
            return wire(client.leases().dead(leases(command), error));
        }
        return wire(
                retryIn == null
                        ? client.leases().fail(leases(command), error)
                        : client.leases().retryIn(leases(command), error, retryIn));
    }

    private JsonNode result(JsonNode command) {
        Duration wait = Wire.duration(command, "wait_ms");
        return Wire.result("payload", job(command).result(wait == null ? Duration.ZERO : wait));
    }

    private static JobChange change(JsonNode options) {
        JobChange change = new JobChange();
        if (options.has("delay_ms")) {
            change.delay(Wire.duration(options, "delay_ms"));
        }
        if (options.has("run_at_ms")) {
            change.runAt(Wire.instant(options.get("run_at_ms")));
        }
        if (options.has("start_within_ms")) {
            change.startWithin(Wire.duration(options, "start_within_ms"));
        }
        if (options.has("priority")) {
            change.priority(options.get("priority").asInt());
        }
        return change;
    }

    private JsonNode cancel(JsonNode command) {
        if (!command.has("running")) {
            return wire(job(command).cancel());
        }
        return wire(job(command).cancel(running(command.get("running"))));
    }

    private static IfRunning running(JsonNode value) {
        return IfRunning.valueOf(value.asText().toUpperCase(Locale.ROOT));
    }

    private JsonNode listJobs(JsonNode command) {
        JobFilter filter = JobFilter.ofJson(command.path("filter"));
        Queue queue = queue(command);
        int pageSize = command.path("page_size").asInt(100);
        return list(queue.jobs(filter, pageSize));
    }

    private JsonNode act(JsonNode command) {
        JobFilter filter = JobFilter.ofJson(command.path("filter"));
        String verb = command.path("action").asText();
        JsonNode options = command.path("options");
        JobAction action =
                verb.equals("change") ? JobAction.change(filter, change(options)) : JobAction.of(verb, filter);
        if (options.has("running")) {
            action.running(running(options.get("running")));
        }
        if (options.has("rate_per_second")) {
            action.with("rate_per_second", options.get("rate_per_second"));
        }
        if (command.path("dry_run").asBoolean()) {
            action.dryRun();
        }
        return wire(queue(command).act(action));
    }

    private JsonNode setPolicy(JsonNode command) {
        return policy(queue(command).changePolicy(PolicyChange.ofJson(command.path("policy"))));
    }

    /** The version is in a header of the answer. */
    private static JsonNode policy(Policy policy) {
        return wire(policy.withRevision(null));
    }

    private JsonNode purge(JsonNode command) {
        PurgeState state = PurgeState.valueOf(command.path("state").asText().toUpperCase(Locale.ROOT));
        return Wire.MAPPER.createObjectNode().put("deleted", queue(command).purge(state));
    }

    private JsonNode respawn(JsonNode command) {
        Long limit = command.hasNonNull("limit") ? command.get("limit").asLong() : null;
        return Wire.MAPPER.createObjectNode().put("respawned", queue(command).respawn(limit, null));
    }

    private JsonNode nextRuns(JsonNode command) {
        int count = command.path("count").asInt(1);
        ObjectNode answer = Wire.MAPPER.createObjectNode();
        return answer.set("runs", wire(client.schedule(command.path("name").asText()).next(count)));
    }
}
