package io.tidegate;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpTransport;
import io.tidegate.internal.Json;
import io.tidegate.internal.Telemetry;
import io.tidegate.internal.Transport;
import java.net.URI;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** Describes a {@link TidegateClient}. */
public final class ClientBuilder {
    private static final Duration TIME_LIMIT = Duration.ofSeconds(10);

    private String url;
    private String key;
    private String namespace;
    private Duration timeLimit = TIME_LIMIT;
    private RepeatLimits repeatLimits = RepeatLimits.DEFAULT;
    private ObjectMapper mapper;
    private HttpClient http;
    private Supplier<String> traceParent = Telemetry::traceParent;
    private Transport transport;

    ClientBuilder() {}

    /**
     * Sets the server. Default: the variable {@code TIDEGATE_URL}.
     *
     * @param url like {@code https://tidegate.example.com}, without a user, a query or a fragment
     * @return this
     */
    public ClientBuilder url(String url) {
        this.url = url;
        return this;
    }

    /**
     * Sets the API key. Default: the variable {@code TIDEGATE_KEY}.
     *
     * @param key a key, {@code tg_…}
     * @return this
     */
    public ClientBuilder key(String key) {
        this.key = key;
        return this;
    }

    /**
     * Sets the namespace. Default: the variable {@code TIDEGATE_NAMESPACE}.
     *
     * @param namespace 1 to 255 letters, digits, {@code -} and {@code _}
     * @return this
     */
    public ClientBuilder namespace(String namespace) {
        this.namespace = namespace;
        return this;
    }

    /**
     * Sets how long one attempt of a request may take, in addition to its wait. Default: 10 s.
     *
     * @param limit more than zero
     * @return this
     */
    public ClientBuilder timeLimit(Duration limit) {
        if (limit.isZero() || limit.isNegative()) {
            throw new IllegalArgumentException("the time limit " + limit + " is not more than zero");
        }
        this.timeLimit = limit;
        return this;
    }

    /**
     * Sets how often requests are repeated. Default: {@link RepeatLimits#DEFAULT}.
     *
     * @param limits the limits
     * @return this
     */
    public ClientBuilder repeatLimits(RepeatLimits limits) {
        this.repeatLimits = Objects.requireNonNull(limits, "limits");
        return this;
    }

    /**
     * Sets the mapper that writes and reads payloads and results. Default: a mapper with all modules on the class path,
     * which writes instants as texts.
     *
     * @param mapper the mapper
     * @return this
     */
    public ClientBuilder objectMapper(ObjectMapper mapper) {
        this.mapper = Objects.requireNonNull(mapper, "mapper");
        return this;
    }

    /**
     * Sets the HTTP client, for a proxy or certificates of your own. It should use HTTP/1.1, and have a time limit for
     * connects. It is not closed with this client. Default: a new one.
     *
     * @param http the HTTP client
     * @return this
     */
    public ClientBuilder httpClient(HttpClient http) {
        this.http = Objects.requireNonNull(http, "http");
        return this;
    }

    /**
     * Sets the function that returns the trace parent of the running span (W3C Trace Context), or null if the span is
     * not sampled. It becomes a header and the attribute {@code traceparent} of published jobs. Default: a function
     * that asks OpenTelemetry, if its API is on the class path.
     *
     * @param traceParent the function
     * @return this
     */
    public ClientBuilder traceParent(Supplier<String> traceParent) {
        this.traceParent = Objects.requireNonNull(traceParent, "traceParent");
        return this;
    }

    /** Sets the transport. Not for users: the type is not exported. */
    public ClientBuilder transport(Transport transport) {
        this.transport = transport;
        return this;
    }

    /**
     * Makes the client. No request is sent.
     *
     * @return the client
     * @throws IllegalArgumentException if the URL, key or namespace is missing or not valid
     */
    public TidegateClient build() {
        ObjectMapper payloads = mapper != null ? mapper : Json.forPayloads();
        Transport carrier = transport != null ? transport : httpTransport(System::getenv);
        return new TidegateClient(new ClientCore(carrier, repeatLimits, timeLimit, payloads, traceParent));
    }

    private HttpTransport httpTransport(UnaryOperator<String> variables) {
        String server = server(setting("URL", url, variables));
        String space = setting("namespace", namespace, variables);
        if (!space.matches("[A-Za-z0-9_-]{1,255}")) {
            throw new IllegalArgumentException("the namespace is not 1 to 255 letters, digits, - or _");
        }
        String secret = setting("key", key, variables);
        if (!secret.matches("[!-~]+")) {
            throw new IllegalArgumentException("the API key has characters that no API key has");
        }
        return new HttpTransport(http, server + "/v1/" + space, secret, timeLimit);
    }

    private static String setting(String name, String value, UnaryOperator<String> variables) {
        String variable = "TIDEGATE_" + name.toUpperCase(java.util.Locale.ROOT);
        String found = value != null ? value : variables.apply(variable);
        if (found == null || found.isBlank()) {
            throw new IllegalArgumentException("the client has no " + name + ": set it, or the variable " + variable);
        }
        return found.strip();
    }

    /** The URL without slashes at its end. The exception does not show it: it may have a password. */
    private static String server(String text) {
        String trimmed = text.replaceAll("/+$", "");
        try {
            URI uri = URI.create(trimmed);
            boolean isHttp = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
            boolean hasMore = uri.getQuery() != null || uri.getFragment() != null || uri.getUserInfo() != null;
            if (isHttp && uri.getHost() != null && !hasMore) {
                return trimmed;
            }
        } catch (IllegalArgumentException noUri) {
            // The exception below has the remedy.
        }
        throw new IllegalArgumentException(
                "the URL names no server: write it like https://tidegate.example.com, without a user, a query or a"
                        + " fragment");
    }
}
