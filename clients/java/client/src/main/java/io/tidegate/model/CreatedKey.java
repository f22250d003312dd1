package io.tidegate.model;

/**
 * An API key that was created. Only this answer has the secret: the server stores a hash.
 *
 * @param outcome {@code created}
 * @param secret the key as a client sends it
 * @param key the key without its secret
 */
public record CreatedKey(String outcome, String secret, KeyView key) {
    /** Without the secret. */
    @Override
    public String toString() {
        return "CreatedKey[" + key + "]";
    }
}
