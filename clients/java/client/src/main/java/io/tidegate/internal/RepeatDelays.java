package io.tidegate.internal;

import io.tidegate.RepeatLimits;
import io.tidegate.error.TidegateException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.DoubleSupplier;

/** The delays before the repetitions of one request. */
public final class RepeatDelays {
    private final RepeatLimits limits;
    private final DoubleSupplier random;
    private int repetitions;

    /** Delays with these limits. */
    public RepeatDelays(RepeatLimits limits) {
        this(limits, () -> ThreadLocalRandom.current().nextDouble());
    }

    RepeatDelays(RepeatLimits limits, DoubleSupplier random) {
        this.limits = limits;
        this.random = random;
    }

    /** Delays of a request that is repeated as long as something else allows it. */
    public static RepeatDelays endless(Duration first, Duration longest) {
        return new RepeatDelays(new RepeatLimits(Integer.MAX_VALUE, first, longest));
    }

    /** The delay after this error, or null if the request is not repeated any more. */
    public Duration nextAfter(TidegateException error) {
        if (repetitions >= limits.repetitions()) {
            return null;
        }
        Duration delay = next();
        Duration after = error.retryAfter().orElse(Duration.ZERO);
        if (after.compareTo(RepeatLimits.RETRY_AFTER_MAX) > 0) {
            return null;
        }
        return delay.compareTo(after) > 0 ? delay : after;
    }

    private Duration next() {
        // Beyond 30 doublings every sensible first delay is longer than the longest one.
        long doubled = limits.firstDelay().toMillis() << Math.min(repetitions, 30);
        repetitions++;
        long delay = Math.min(doubled, limits.longestDelay().toMillis());
        return Duration.ofMillis(Math.round(delay * (1 + random.getAsDouble())));
    }
}
