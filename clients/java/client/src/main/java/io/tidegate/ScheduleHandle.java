package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.error.TidegateException;
import io.tidegate.internal.ClientCore;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.Names;
import io.tidegate.internal.Safety;
import io.tidegate.model.ScheduleDetails;
import java.time.Instant;
import java.util.List;

/**
 * A schedule by its name. All calls but {@link #set} throw a {@link io.tidegate.error.NotFoundException} if there is
 * none, and other {@link TidegateException}s.
 */
public final class ScheduleHandle {
    private final ClientCore core;
    private final String path;

    ScheduleHandle(ClientCore core, String name) {
        this.core = core;
        this.path = "/schedules/" + Names.check("schedule", name);
    }

    /**
     * Creates the schedule, or replaces it.
     *
     * @param schedule the schedule
     * @return the schedule as it is stored
     */
    public ScheduleDetails set(Schedule schedule) {
        return core.call(HttpCall.json("PUT", path, schedule.json())).json(ScheduleDetails.class);
    }

    /**
     * Replaces the schedule, if it has this version.
     *
     * @param schedule the schedule
     * @param revision the version, of {@link ScheduleDetails#revision}
     * @return the schedule as it is stored
     * @throws io.tidegate.error.ConflictException {@code version_mismatch} if it has another version
     */
    public ScheduleDetails setIf(Schedule schedule, String revision) {
        HttpCall call = HttpCall.json("PUT", path, schedule.json()).header("If-Match", "\"" + revision + "\"");
        // A repetition of a change that was made would find another version.
        return core.call(call, Safety.ONLY_IF_NOT_APPLIED).json(ScheduleDetails.class);
    }

    /**
     * The schedule.
     *
     * @return the schedule
     */
    public ScheduleDetails show() {
        return core.call(HttpCall.get(path)).json(ScheduleDetails.class);
    }

    /**
     * Its next ticks.
     *
     * @param count the most ticks, 1 to 100
     * @return the ticks, the first one first; none if it is paused or has ended
     */
    public List<Instant> next(int count) {
        return core.call(HttpCall.get(path + "/next?count=" + count)).json(Runs.class).runs();
    }

    /** Ends the schedule. Jobs that it has published stay. */
    public void delete() {
        core.call(HttpCall.of("DELETE", path)).json(JsonNode.class);
    }

    private record Runs(List<Instant> runs) {}
}
