package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;

/** An API key to create, within the namespace, scopes and expiry of the key of the client. */
public final class NewKey extends WireObject<NewKey> {
    private NewKey() {}

    /** What a key allows. */
    public enum Scope {
        /** Publish, change, promote, cancel; show a job by its key. */
        PUBLISH,
        /** Reserve, ack, fail, touch, release. */
        CONSUME,
        /** Show and list. */
        READ,
        /** Act on many jobs; change policies and schedules; manage queues and keys. */
        ADMIN
    }

    /**
     * A key.
     *
     * @param description its purpose, for people: 1 to 255 bytes
     * @param scopes what it allows: 1 to 4, each once
     * @return the key
     */
    public static NewKey of(String description, Scope... scopes) {
        String[] names = Arrays.stream(scopes)
                .map(scope -> scope.name().toLowerCase(Locale.ROOT))
                .toArray(String[]::new);
        return new NewKey().put("description", description).put("scopes", names);
    }

    /**
     * A key as the server reads it.
     *
     * @param key an object with the fields of the API
     * @return the key
     */
    public static NewKey ofJson(JsonNode key) {
        return new NewKey().putAll(key);
    }

    /**
     * Sets when the key expires. Default: never.
     *
     * @param instant the instant
     * @return this
     */
    public NewKey expiresAt(Instant instant) {
        return put("expires_at", instant);
    }
}
