package io.tidegate.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.Payload;
import io.tidegate.TidegateClient;
import io.tidegate.error.TidegateException;
import io.tidegate.worker.Dead;
import io.tidegate.worker.Job;
import io.tidegate.worker.RetryIn;
import io.tidegate.worker.Snooze;
import io.tidegate.worker.Worker;
import io.tidegate.worker.WorkerBuilder;
import java.time.Duration;
import java.util.Locale;

/** The commands {@code work} and {@code stop}. */
final class WorkCommand {
    private static final Duration GRACE = Duration.ofSeconds(25);

    private final TidegateClient client;
    private final Output output;
    private Worker worker;
    private Thread running;
    private volatile boolean isStopCommanded;

    WorkCommand(TidegateClient client, Output output) {
        this.client = client;
        this.output = output;
    }

    synchronized JsonNode start(JsonNode command) {
        worker = build(command);
        isStopCommanded = false;
        running = new Thread(() -> run(worker), "driver-worker");
        running.start();
        return Wire.MAPPER.createObjectNode();
    }

    JsonNode stop(JsonNode command) throws InterruptedException {
        isStopCommanded = true;
        Duration grace = Wire.duration(command, "grace_ms");
        Worker stopped;
        Thread thread;
        synchronized (this) {
            stopped = worker;
            thread = running;
        }
        if (stopped != null) {
            stopped.stop(grace == null ? GRACE : grace);
            thread.join();
        }
        return Wire.MAPPER.createObjectNode();
    }

    private Worker build(JsonNode command) {
        WorkerBuilder builder = Worker.builder(client);
        for (JsonNode queue : command.path("queues")) {
            builder.handleWithResult(queue.asText(), Payload.class, this::handle);
        }
        if (command.has("slots")) {
            builder.slots(command.get("slots").asInt());
        }
        if (command.has("prefetch")) {
            builder.prefetch(command.get("prefetch").asInt());
        }
        if (command.hasNonNull("lease_ms")) {
            builder.lease(Wire.duration(command, "lease_ms"));
        }
        if (command.hasNonNull("wait_ms")) {
            builder.waitFor(Wire.duration(command, "wait_ms"));
        }
        if (command.hasNonNull("max_run_ms")) {
            builder.maxRun(Wire.duration(command, "max_run_ms"));
        }
        if (command.hasNonNull("name")) {
            builder.name(command.get("name").asText());
        }
        if (command.path("strict").asBoolean()) {
            builder.strictOrder();
        }
        command.path("weights").properties().forEach(it -> builder.weight(it.getKey(), it.getValue().asInt()));
        return builder.build();
    }

    private void run(Worker worker) {
        ObjectNode event = Wire.MAPPER.createObjectNode().put("event", "worker_ended");
        boolean hasFailed = false;
        try {
            worker.run();
        } catch (TidegateException error) {
            hasFailed = true;
            event.set("error", Wire.error(error));
        }
        output.write(event);
        if (!isStopCommanded && !hasFailed) {
            // A signal has stopped it.
            System.exit(0);
        }
    }

    private Object handle(Payload payload, Job job) throws Exception {
        output.write(event("started", job).put("queue", job.queue()));
        JsonNode order = order(payload);
        try {
            block(order.path("block_ms").asLong());
            Thread.sleep(order.path("sleep_ms").asLong());
        } catch (InterruptedException aborted) {
            String reason = job.abortReason().map(it -> it.name().toLowerCase(Locale.ROOT)).orElse("unknown");
            output.write(event("aborted", job).put("reason", reason));
            throw aborted;
        }
        output.write(event("ended", job));
        return end(order);
    }

    private static ObjectNode event(String name, Job job) {
        return Wire.MAPPER
                .createObjectNode()
                .put("event", name)
                .put("job", job.id())
                .put("attempt", job.attempt());
    }

    private static JsonNode order(Payload payload) {
        JsonNode nothing = Wire.MAPPER.createObjectNode();
        return payload.isJson() ? payload.as(JsonNode.class) : nothing;
    }

    private static Object end(JsonNode order) {
        return switch (order.path("then").asText("ok")) {
            case "result" -> order.path("result").isNull() ? null : order.get("result");
            case "fail" -> throw new IllegalStateException(order.path("error").asText());
            case "retry_in" -> throw new RetryIn("asked", Wire.duration(order, "ms"));
            case "dead" -> throw new Dead("asked");
            case "snooze" -> throw new Snooze(Wire.duration(order, "ms"));
            default -> null;
        };
    }

    /** Sleeps in a way that an interrupt does not end, and keeps the interrupt. */
    private static void block(long ms) {
        long deadline = System.nanoTime() + ms * 1_000_000;
        boolean isInterrupted = false;
        for (long left = ms; left > 0; left = (deadline - System.nanoTime()) / 1_000_000) {
            try {
                Thread.sleep(left);
            } catch (InterruptedException ignored) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
