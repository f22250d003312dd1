package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;

/**
 * A schedule.
 *
 * @param name its name
 * @param revision its version
 * @param config what was set, with the defaults
 * @param nextRun its next tick, or null if there is none
 */
public record ScheduleDetails(String name, String revision, JsonNode config, @JsonInclude Instant nextRun) {}
