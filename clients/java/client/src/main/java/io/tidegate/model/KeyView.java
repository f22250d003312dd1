package io.tidegate.model;

import java.time.Instant;
import java.util.List;

/**
 * An API key, without its secret.
 *
 * @param id its id
 * @param namespace the namespace that it opens, {@code *} for all
 * @param pool the pool of the namespace
 * @param scopes what it allows
 * @param description its purpose
 * @param createdAt when it was created
 * @param expiresAt when it expires, or null
 */
public record KeyView(
        String id,
        String namespace,
        String pool,
        List<String> scopes,
        String description,
        Instant createdAt,
        Instant expiresAt) {}
