package io.tidegate.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Writes lines of JSON, each as a whole. */
final class Output {
    private final PrintStream out;

    Output(PrintStream out) {
        this.out = out;
    }

    void write(JsonNode line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (this) {
            out.write(bytes, 0, bytes.length);
            out.flush();
        }
    }
}
