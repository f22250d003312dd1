package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.ClientBuilder;
import io.tidegate.NewKey;
import io.tidegate.NewKey.Scope;
import io.tidegate.TidegateClient;
import io.tidegate.internal.Json;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A real server on a private Redis, on free ports of this machine: {@code tidegate dev}. Its data are deleted when it
 * is closed.
 *
 * <p>It needs the programs {@code tidegate}, {@code tidegate-api} and {@code tidegate-pumpd} in one folder, and a
 * {@code redis-server} or {@code valkey-server} on {@code PATH} or in the variable {@code TG_REDIS_SERVER}.
 */
public final class TidegateServer implements AutoCloseable {
    private static final Duration START_LIMIT = Duration.ofSeconds(30);
    private static final Duration STOP_LIMIT = Duration.ofSeconds(10);
    private static final String VARIABLE = "TIDEGATE_PROGRAM";

    private final Process process;
    private final JsonNode summary;

    private TidegateServer(Process process, JsonNode summary) {
        this.process = process;
        this.summary = summary;
    }

    /**
     * Starts a server with the program of the variable {@code TIDEGATE_PROGRAM}, or else {@code tidegate} of
     * {@code PATH}.
     *
     * @return the server, which serves
     * @throws IllegalStateException if a program is missing, or does not start within 30 s
     */
    public static TidegateServer start() {
        return start(null);
    }

    /**
     * Starts a server.
     *
     * @param program the path of {@code tidegate}, or null
     * @return the server, which serves
     * @throws IllegalStateException if a program is missing, or does not start within 30 s
     */
    public static TidegateServer start(Path program) {
        String path = program != null ? program.toString() : found();
        int[] ports = freePorts();
        ProcessBuilder builder = new ProcessBuilder(
                List.of(path, "dev", "--json", "--port", "" + ports[0], "--admin-port", "" + ports[1]));
        // The variables of the daemons are settings; variables of the test are not meant for them.
        builder.environment().keySet().removeIf(name -> name.startsWith("TIDEGATE_"));
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        try {
            Process process = builder.start();
            return new TidegateServer(process, summary(process));
        } catch (IOException error) {
            throw new IllegalStateException("failed to start " + path + ": " + error.getMessage(), error);
        }
    }

    /** The line that the program prints once it serves. */
    private static JsonNode summary(Process process) {
        CompletableFuture<JsonNode> line = CompletableFuture.supplyAsync(() -> readLine(process));
        try {
            return line.get(START_LIMIT.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException | ExecutionException error) {
            stop(process);
            throw new IllegalStateException("tidegate dev does not start: see its output", error);
        } catch (InterruptedException interrupted) {
            stop(process);
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while tidegate dev starts", interrupted);
        }
    }

    private static JsonNode readLine(Process process) {
        try {
            BufferedReader output =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String line = output.readLine();
            if (line == null) {
                throw new IOException("it has ended");
            }
            return Json.WIRE.readTree(line);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String found() {
        String variable = System.getenv(VARIABLE);
        if (variable != null && !variable.isBlank()) {
            return variable;
        }
        String folders = System.getenv().getOrDefault("PATH", "");
        for (String folder : folders.split(File.pathSeparator)) {
            Path candidate = Path.of(folder, "tidegate");
            if (Files.isExecutable(candidate)) {
                return candidate.toString();
            }
        }
        throw new IllegalStateException("no program tidegate: it is not in PATH; set " + VARIABLE + " to its path");
    }

    private static int[] freePorts() {
        InetAddress local = InetAddress.getLoopbackAddress();
        try (ServerSocket one = new ServerSocket(0, 1, local);
                ServerSocket other = new ServerSocket(0, 1, local)) {
            return new int[] {one.getLocalPort(), other.getLocalPort()};
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * The URL of the server.
     *
     * @return the URL
     */
    public String url() {
        return summary.path("url").asText();
    }

    /**
     * The URL of its admin port.
     *
     * @return the URL
     */
    public String adminUrl() {
        return summary.path("admin_url").asText();
    }

    /**
     * A new API key with all scopes for a namespace.
     *
     * @param namespace the namespace
     * @return the key
     */
    public String key(String namespace) {
        // The admin port asks for no key.
        ClientBuilder admin = TidegateClient.builder();
        try (TidegateClient client =
                admin.url(adminUrl()).key("none").namespace(namespace).build()) {
            return client.keys().create(NewKey.of("test", Scope.values())).secret();
        }
    }

    /**
     * A client of a namespace, with a new API key. Give each test its own namespace.
     *
     * @param namespace the namespace
     * @return the client; close it
     */
    public TidegateClient client(String namespace) {
        return TidegateClient.builder()
                .url(url())
                .key(key(namespace))
                .namespace(namespace)
                .build();
    }

    /** Stops the server. */
    @Override
    public void close() {
        stop(process);
    }

    private static void stop(Process process) {
        process.destroy();
        try {
            if (!process.waitFor(STOP_LIMIT.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
