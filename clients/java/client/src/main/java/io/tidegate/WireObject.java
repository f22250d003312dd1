package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidegate.internal.Json;
import io.tidegate.internal.WireTime;
import java.time.Duration;
import java.time.Instant;

/**
 * An object that a request sends: fields by their names on the wire.
 *
 * @param <T> the subclass
 */
public abstract class WireObject<T extends WireObject<T>> {
    private final ObjectNode fields = Json.WIRE.createObjectNode();

    WireObject() {}

    /**
     * The object as it is sent. Durations are texts such as {@code 1500ms}, instants are ms since 1970.
     *
     * @return a copy
     */
    public JsonNode json() {
        return fields.deepCopy();
    }

    /**
     * Sets a field by its name on the wire, for fields that this version of the client does not know.
     *
     * @param name the name
     * @param value the value, or null for the default of the server
     * @return this
     */
    public T with(String name, JsonNode value) {
        fields.set(name, value);
        return self();
    }

    T put(String name, Object value) {
        fields.set(name, Json.WIRE.valueToTree(value));
        return self();
    }

    T put(String name, Duration value) {
        fields.put(name, value == null ? null : WireTime.text(name, value));
        return self();
    }

    T put(String name, Instant value) {
        fields.put(name, value == null ? null : WireTime.millis(name, value));
        return self();
    }

    T put(String name, WireObject<?> value) {
        fields.set(name, value == null ? null : value.json());
        return self();
    }

    T putAll(JsonNode object) {
        object.properties().forEach(field -> fields.set(field.getKey(), field.getValue()));
        return self();
    }

    @SuppressWarnings("unchecked")
    private T self() {
        return (T) this;
    }

    @Override
    public String toString() {
        return fields.toString();
    }
}
