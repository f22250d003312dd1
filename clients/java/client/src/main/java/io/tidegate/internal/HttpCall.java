package io.tidegate.internal;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A request.
 *
 * @param method the HTTP method
 * @param path the path behind the namespace, with its query
 * @param headers the headers besides the ones that each request has
 * @param body the body, or null
 * @param serverWait how long the server may wait before it answers
 */
public record HttpCall(String method, String path, Map<String, String> headers, byte[] body, Duration serverWait) {
    private static final Map<String, String> JSON = Map.of("Content-Type", "application/json");

    /** A request without a body. */
    public static HttpCall of(String method, String path) {
        return new HttpCall(method, path, Map.of(), null, Duration.ZERO);
    }

    /** A request without a body that reads. */
    public static HttpCall get(String path) {
        return of("GET", path);
    }

    /** A request with a document as its body. */
    public static HttpCall json(String method, String path, Object document) {
        return jsonBytes(method, path, Json.write(document));
    }

    /** A request with the bytes of a document as its body. */
    public static HttpCall jsonBytes(String method, String path, byte[] document) {
        return new HttpCall(method, path, JSON, document, Duration.ZERO);
    }

    /** The same request, which the server may answer so much later. */
    public HttpCall waiting(Duration serverWait) {
        return new HttpCall(method, path, headers, body, serverWait);
    }

    /** The same request with a further header, unless the value is null. */
    public HttpCall header(String name, String value) {
        if (value == null) {
            return this;
        }
        Map<String, String> all = new LinkedHashMap<>(headers);
        all.put(name, value);
        return new HttpCall(method, path, all, body, serverWait);
    }
}
