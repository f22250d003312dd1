package io.tidegate.worker;

import io.tidegate.Payload;
import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.LeaseBodies.Failed;
import java.time.Duration;

/** The end of a job, to be reported. */
final class EndedJob {
    private final HeldJob held;
    private final Object report;
    /** Whether it was sent before, so that its outcome is of no interest. */
    private boolean isRepeated;

    /** Whether it must not travel with a reserve any more. */
    private boolean isSentAlone;

    /** Whether it takes room of the ends of jobs that wait to be sent. */
    private boolean hasRoom;

    private EndedJob(HeldJob held, Object report) {
        this.held = held;
        this.report = report;
    }

    /** A job that is given back. */
    record Released(Duration delay) {}

    static EndedJob done(HeldJob held, Payload result) {
        return new EndedJob(held, new Done(held.job().lease(), result));
    }

    static EndedJob failed(HeldJob held, String error, Duration retryIn, boolean isDead) {
        return new EndedJob(held, new Failed(held.job().lease(), error, retryIn, isDead));
    }

    static EndedJob released(HeldJob held, Duration delay) {
        return new EndedJob(held, new Released(delay));
    }

    /** It takes room from now on. */
    EndedJob withRoom() {
        hasRoom = true;
        return this;
    }

    /** It takes no room any more; returns whether it did. */
    boolean leaveRoom() {
        boolean had = hasRoom;
        hasRoom = false;
        return had;
    }

    HeldJob held() {
        return held;
    }

    /** A {@link Done}, a {@link Failed} or a {@link Released}. */
    Object report() {
        return report;
    }

    /** The request has failed: perhaps the server has carried it out. */
    void repeatAlone() {
        isRepeated = true;
        isSentAlone = true;
    }

    boolean isRepeated() {
        return isRepeated;
    }

    void repeated() {
        isRepeated = true;
    }

    /** Whether the report can travel with a reserve. A large result is sent alone, so that it delays no other job. */
    boolean fitsReserve() {
        boolean isLarge = report instanceof Done done && done.result() != null && done.result().size() > 16_384;
        return !isSentAlone && !isLarge && !(report instanceof Released);
    }
}
