package io.tidegate.model;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;

/**
 * The outcome of a call for one lease.
 *
 * @param outcome the outcome
 * @param runAt when the job is due again, or null
 * @param leaseUntil until when the lease is extended, or null
 * @param cancelRequested whether the producer has asked to cancel the job: stop, and fail or release it
 * @param resultDropped whether the result was dropped, since the server has no memory left
 */
public record LeaseResult(
        LeaseOutcome outcome,
        Instant runAt,
        Instant leaseUntil,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean cancelRequested,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean resultDropped) {}
