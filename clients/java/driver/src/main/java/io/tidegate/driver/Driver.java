package io.tidegate.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.TidegateClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The driver of the conformance suite: reads commands as lines of JSON, and writes answers and events as lines of JSON.
 */
public final class Driver {
    private static final int CRASH_STATUS = 9;

    private final Output output;
    private final Commands commands;
    private final WorkCommand work;

    private Driver(TidegateClient client) {
        this.output = new Output(System.out);
        this.commands = new Commands(client);
        this.work = new WorkCommand(client, output);
    }

    /**
     * Runs until the standard input ends.
     *
     * @param arguments none
     * @throws IOException if the standard input cannot be read
     */
    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver(TidegateClient.connect());
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (!line.isBlank()) {
                JsonNode command = Wire.MAPPER.readTree(line);
                threads.execute(() -> driver.carryOut(command));
            }
        }
        System.exit(0);
    }

    private void carryOut(JsonNode command) {
        ObjectNode answer = Wire.MAPPER.createObjectNode();
        answer.set("id", command.get("id"));
        try {
            answer.set("ok", result(command));
        } catch (Exception | StackOverflowError error) {
            answer.set("error", Wire.error(error));
        }
        output.write(answer);
    }

    private JsonNode result(JsonNode command) throws Exception {
        return switch (command.path("do").asText()) {
            case "work" -> work.start(command);
            case "stop" -> work.stop(command);
            case "end" -> {
                Runtime.getRuntime().halt(CRASH_STATUS);
                yield null;
            }
            default -> commands.run(command);
        };
    }
}
