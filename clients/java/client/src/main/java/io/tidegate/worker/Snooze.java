package io.tidegate.worker;

import java.time.Duration;

/** Not now: the job is due again after a delay. This counts as no failure. */
public final class Snooze extends Fail {
    private final Duration delay;

    /**
     * A pause.
     *
     * @param delay when the job is due again, from now on
     */
    public Snooze(Duration delay) {
        super("snoozed for " + delay, null);
        this.delay = delay;
    }

    /**
     * When the job is due again, from now on.
     *
     * @return the delay
     */
    public Duration delay() {
        return delay;
    }
}
