package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.tidegate.RepeatLimits;
import io.tidegate.error.Applied;
import io.tidegate.error.Failure;
import io.tidegate.error.TidegateException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RepeatDelaysTest {
    private static TidegateException unavailable(Duration retryAfter) {
        Failure failure = new Failure(503, "storage_unavailable", "", Applied.NO, null, retryAfter, null);
        return TidegateException.of(failure, null);
    }

    private static List<Long> delays(double random) {
        RepeatDelays delays = new RepeatDelays(RepeatLimits.DEFAULT, () -> random);
        List<Long> all = new ArrayList<>();
        for (Duration delay = delays.nextAfter(unavailable(null)); delay != null; ) {
            all.add(delay.toMillis());
            delay = delays.nextAfter(unavailable(null));
        }
        return all;
    }

    @Test
    void delaysAreDoubledUpTo5SecondsAndMadeLongerUpToTwice() {
        assertEquals(List.of(100L, 200L, 400L, 800L, 1600L, 3200L, 5000L), delays(0));
        assertEquals(List.of(150L, 300L, 600L, 1200L, 2400L, 4800L, 7500L), delays(0.5));
    }

    @Test
    void retryAfterIsWaitedForUpTo30Seconds() {
        RepeatDelays delays = new RepeatDelays(RepeatLimits.DEFAULT, () -> 0);
        assertEquals(Duration.ofSeconds(30), delays.nextAfter(unavailable(Duration.ofSeconds(30))));
        assertEquals(Duration.ofMillis(200), delays.nextAfter(unavailable(Duration.ofMillis(10))));
        assertNull(delays.nextAfter(unavailable(Duration.ofSeconds(31))));
    }

    @Test
    void endlessDelaysDoNotOverflow() {
        RepeatDelays delays = RepeatDelays.endless(Duration.ofMillis(100), Duration.ofSeconds(5));
        for (int repetition = 0; repetition < 100; repetition++) {
            long ms = delays.nextAfter(unavailable(null)).toMillis();
            assertEquals(true, ms >= 100 && ms <= 10_000, "delay " + ms);
        }
    }
}
