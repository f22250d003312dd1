package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;

/** A schedule, which publishes a job at each tick. */
public final class Schedule extends WireObject<Schedule> {
    private Schedule() {}

    /**
     * A schedule whose ticks are the times that match a cron pattern.
     *
     * @param queue the queue of the jobs; it cannot be changed
     * @param cron five fields, or six that begin with the seconds
     * @param job the job, without {@code run_at}, keys and durability
     * @return the schedule
     */
    public static Schedule cron(String queue, String cron, BatchJob job) {
        return new Schedule().put("queue", queue).put("cron", cron).with("job", job.scheduled());
    }

    /**
     * A schedule whose ticks are at multiples of a time since 1970, or since {@link #startsAt}.
     *
     * @param queue the queue of the jobs; it cannot be changed
     * @param every at least 100 ms
     * @param job the job, without {@code run_at}, keys and durability
     * @return the schedule
     */
    public static Schedule every(String queue, Duration every, BatchJob job) {
        return new Schedule().put("queue", queue).put("every", every).with("job", job.scheduled());
    }

    /**
     * A schedule as the server reads it.
     *
     * @param schedule an object with the fields of the API
     * @return the schedule
     */
    public static Schedule ofJson(JsonNode schedule) {
        return new Schedule().putAll(schedule);
    }

    /** The rule for a tick whose earlier job is not done. */
    public enum Overlap {
        /** The earlier job stays, and none is published. The default. */
        KEEP,
        /** The earlier job is replaced; if it runs, it runs again. */
        REPLACE,
        /** Both jobs run. */
        ALLOW
    }

    /** Which ticks are published that the server has missed. */
    public enum CatchUp {
        /** The last one. The default. */
        ONE,
        /** None. */
        NONE,
        /** All. */
        ALL
    }

    /**
     * Sets the time zone of the pattern. Default: UTC.
     *
     * @param zone the zone
     * @return this
     */
    public Schedule timeZone(ZoneId zone) {
        return put("time_zone", zone.getId());
    }

    /**
     * Sets the rule for a tick whose earlier job is not done.
     *
     * @param overlap the rule
     * @return this
     */
    public Schedule overlap(Overlap overlap) {
        return put("overlap", lower(overlap));
    }

    /**
     * Sets which missed ticks are published.
     *
     * @param catchUp which
     * @return this
     */
    public Schedule catchUp(CatchUp catchUp) {
        return put("catch_up", lower(catchUp));
    }

    /**
     * Publishes no tick later than this after its time.
     *
     * @param window at least 1 s
     * @return this
     */
    public Schedule catchUpWindow(Duration window) {
        return put("catch_up_window", window);
    }

    /**
     * Sets the first possible tick.
     *
     * @param instant the instant
     * @return this
     */
    public Schedule startsAt(Instant instant) {
        return put("starts_at", instant);
    }

    /**
     * Sets the last possible tick.
     *
     * @param instant the instant
     * @return this
     */
    public Schedule endsAt(Instant instant) {
        return put("ends_at", instant);
    }

    /**
     * Stops or resumes the ticks. Ticks of a pause are not caught up.
     *
     * @param paused whether there are no ticks
     * @return this
     */
    public Schedule paused(boolean paused) {
        return put("paused", paused);
    }

    private static String lower(Enum<?> value) {
        return value.name().toLowerCase(java.util.Locale.ROOT);
    }
}
