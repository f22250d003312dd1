package io.tidegate.internal;

import java.util.function.Function;

/**
 * An answer.
 *
 * @param status the HTTP status
 * @param headers returns the first value of a header, or null
 * @param body the body, which may be empty
 */
public record HttpReply(int status, Function<String, String> headers, byte[] body) {
    /** The value of a header, or null. */
    public String header(String name) {
        return headers.apply(name);
    }

    /** Whether the status is 2xx. */
    public boolean isSuccess() {
        return status >= 200 && status < 300;
    }

    /** The body as a document of the server. */
    public <T> T json(Class<T> type) {
        return Json.read(body, type);
    }
}
