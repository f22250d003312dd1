package io.tidegate;

import java.time.Duration;

/**
 * How often a request that failed is repeated, and the delays between.
 *
 * <p>The first delay is doubled up to the longest one; each is made longer at random, up to twice. A request is not
 * repeated before the {@code Retry-After} of the server; if that is later than {@link #RETRY_AFTER_MAX}, the error is
 * returned.
 *
 * @param repetitions the most repetitions, 0 for none
 * @param firstDelay the first delay
 * @param longestDelay the longest delay, before it is made longer at random
 */
public record RepeatLimits(int repetitions, Duration firstDelay, Duration longestDelay) {
    /** The longest {@code Retry-After} that is waited for. */
    public static final Duration RETRY_AFTER_MAX = Duration.ofSeconds(30);

    /** 7 repetitions after 100 ms, doubled up to 5 s: 11 to 23 s altogether. */
    public static final RepeatLimits DEFAULT = new RepeatLimits(7, Duration.ofMillis(100), Duration.ofSeconds(5));

    /** No repetitions. */
    public static final RepeatLimits NONE = new RepeatLimits(0, Duration.ZERO, Duration.ZERO);

    /** Checks that nothing is negative. */
    public RepeatLimits {
        if (repetitions < 0 || firstDelay.isNegative() || longestDelay.isNegative()) {
            throw new IllegalArgumentException("a repeat limit is negative");
        }
    }
}
