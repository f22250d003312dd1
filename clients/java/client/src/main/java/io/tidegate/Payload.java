package io.tidegate;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import io.tidegate.internal.Json;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/**
 * The payload of a job, or its result: bytes with a content type. JSON is kept as the text that was sent, so that
 * integers of 64 bits and decimals lose nothing.
 */
public final class Payload {
    private static final String JSON = "application/json";
    private static final JsonMapper MAPPER = Json.forPayloads();

    private final byte[] bytes;
    private final String contentType;
    private final ObjectMapper mapper;
    private final boolean isWritten;

    private Payload(byte[] bytes, String contentType, ObjectMapper mapper, boolean isWritten) {
        this.bytes = Objects.requireNonNull(bytes, "bytes");
        this.contentType = Objects.requireNonNull(contentType, "contentType");
        this.mapper = mapper;
        this.isWritten = isWritten;
    }

    /**
     * Bytes. They are not copied: do not change them.
     *
     * @param bytes up to 1 MiB, unless the server allows more; may be empty
     * @param contentType a content type such as {@code image/png}. If it is JSON, the bytes must be valid JSON.
     * @return the payload
     */
    public static Payload bytes(byte[] bytes, String contentType) {
        return new Payload(bytes, contentType, MAPPER, false);
    }

    /**
     * Bytes that are read with the mapper of a client.
     *
     * @param bytes the bytes
     * @param contentType their content type
     * @param mapper reads them, if they are JSON
     * @return the payload
     */
    public static Payload bytes(byte[] bytes, String contentType, ObjectMapper mapper) {
        return new Payload(bytes, contentType, mapper, false);
    }

    /**
     * A text of the type {@code text/plain; charset=utf-8}.
     *
     * @param text the text
     * @return the payload
     */
    public static Payload text(String text) {
        return bytes(text.getBytes(StandardCharsets.UTF_8), "text/plain; charset=utf-8");
    }

    /**
     * A value: a {@code Payload} as it is, a {@code byte[]} as bytes of the type {@code application/octet-stream}, all
     * others as JSON.
     *
     * @param value the value, or null for the JSON {@code null}
     * @param mapper writes the JSON
     * @return the payload
     * @throws InvalidRequestException if the value cannot be written as JSON
     */
    public static Payload of(Object value, ObjectMapper mapper) {
        if (value instanceof Payload payload) {
            return payload;
        }
        if (value instanceof byte[] raw) {
            return bytes(raw, "application/octet-stream");
        }
        try {
            return new Payload(mapper.writeValueAsBytes(value), JSON, mapper, true);
        } catch (JsonProcessingException error) {
            String detail = "the value cannot be written as JSON: " + error.getOriginalMessage();
            throw new InvalidRequestException(Failure.notSent("payload", detail), error);
        }
    }

    /**
     * The bytes. They are not copied: do not change them.
     *
     * @return the bytes, which may be none
     */
    public byte[] bytes() {
        return bytes;
    }

    /**
     * The number of bytes.
     *
     * @return 0 or more
     */
    public int size() {
        return bytes.length;
    }

    /**
     * The content type.
     *
     * @return a type such as {@code application/json}
     */
    public String contentType() {
        return contentType;
    }

    /**
     * Whether the content type says JSON.
     *
     * @return true for {@code application/json} and types that end in {@code +json}
     */
    public boolean isJson() {
        String type = contentType.split(";", 2)[0].strip();
        return type.equalsIgnoreCase(JSON) || type.toLowerCase(java.util.Locale.ROOT).endsWith("+json");
    }

    /** Whether this client has written the bytes as JSON, so that they are surely valid. */
    public boolean isWritten() {
        return isWritten;
    }

    /**
     * Reads the payload as a value of a type. {@code Payload} and {@code byte[]} read any payload, {@code String} reads
     * a payload that is not JSON as UTF-8; all others read JSON.
     *
     * @param type the type
     * @param <T> the type
     * @return the value
     * @throws UncheckedIOException if it is not JSON of this type
     */
    public <T> T as(Class<T> type) {
        if (type == Payload.class) {
            return type.cast(this);
        }
        if (type == byte[].class) {
            return type.cast(bytes);
        }
        if (type == String.class && !isJson()) {
            return type.cast(new String(bytes, StandardCharsets.UTF_8));
        }
        return read(mapper.constructType(type));
    }

    /**
     * Reads the payload as JSON of a generic type: {@code payload.as(new TypeReference<List<Order>>() {})}.
     *
     * @param type the type
     * @param <T> the type
     * @return the value
     * @throws UncheckedIOException if it is not JSON of this type
     */
    public <T> T as(TypeReference<T> type) {
        return read(mapper.constructType(type));
    }

    /**
     * Reads the payload as a tree of JSON.
     *
     * @return the tree
     * @throws UncheckedIOException if it is not JSON
     */
    public JsonNode json() {
        return as(JsonNode.class);
    }

    private <T> T read(JavaType type) {
        try {
            return mapper.readValue(bytes, type);
        } catch (IOException error) {
            throw new UncheckedIOException("failed to read the payload: " + error.getMessage(), error);
        }
    }

    /** Without the content, which may be large or private. */
    @Override
    public String toString() {
        return "Payload[" + bytes.length + " bytes, " + contentType + "]";
    }
}
