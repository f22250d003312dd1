package io.tidegate;

import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.Names;
import io.tidegate.internal.Pages;
import io.tidegate.internal.Safety;
import io.tidegate.model.CreatedKey;
import io.tidegate.model.KeyView;
import java.util.stream.Stream;

/** The API keys of the namespace. All calls need the scope {@code admin}, and throw {@link TidegateException}s. */
public final class ApiKeys {
    private final ClientCore core;

    ApiKeys(ClientCore core) {
        this.core = core;
    }

    /**
     * Creates a key. It is not repeated if its answer, which has the secret, is lost.
     *
     * @param key the key
     * @return the key with its secret
     */
    public CreatedKey create(NewKey key) {
        HttpCall call = HttpCall.json("POST", "/keys", key.json());
        return core.call(call, Safety.ONLY_IF_NOT_APPLIED).json(CreatedKey.class);
    }

    /**
     * All keys, without their secrets.
     *
     * @return the keys; pages are read as the stream is consumed
     */
    public Stream<KeyView> list() {
        return Pages.stream(core, "/keys", KeyView.class);
    }

    /**
     * Revokes a key. It is refused everywhere within a second.
     *
     * @param id the id of the key
     */
    public void revoke(String id) {
        core.call(HttpCall.of("DELETE", "/keys/" + Names.check("key", id)));
    }
}
