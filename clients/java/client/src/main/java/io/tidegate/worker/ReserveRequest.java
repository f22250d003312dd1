package io.tidegate.worker;

import com.fasterxml.jackson.core.JsonGenerator;
import io.tidegate.internal.HttpCall;
import io.tidegate.internal.LeaseBodies;
import io.tidegate.internal.LeaseBodies.Done;
import io.tidegate.internal.LeaseBodies.Failed;
import io.tidegate.internal.WireTime;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/** The requests of a worker for jobs. */
final class ReserveRequest {
    private ReserveRequest() {}

    /**
     * A request for jobs.
     *
     * @param ends ends of jobs, which the server takes note of before it looks for jobs
     */
    static HttpCall call(WorkerSettings settings, int jobs, Duration wait, List<EndedJob> ends) {
        byte[] body = LeaseBodies.object(out -> write(settings, jobs, wait, ends, out));
        return HttpCall.jsonBytes("POST", "/reserve", body).waiting(wait);
    }

    private static void write(
            WorkerSettings settings, int jobs, Duration wait, List<EndedJob> ends, JsonGenerator out)
            throws IOException {
        out.writeArrayFieldStart("queues");
        for (String queue : settings.routes().keySet()) {
            Integer weight = settings.weights().get(queue);
            if (weight == null) {
                out.writeString(queue);
            } else {
                out.writeStartObject();
                out.writeStringField("name", queue);
                out.writeNumberField("weight", weight);
                out.writeEndObject();
            }
        }
        out.writeEndArray();
        out.writeStringField("order", settings.isStrict() ? "strict" : "weighted");
        out.writeNumberField("max_jobs", jobs);
        out.writeStringField("wait", WireTime.text("wait", wait));
        if (settings.lease() != null) {
            out.writeStringField("lease", WireTime.text("lease", settings.lease()));
        }
        out.writeStringField("worker", settings.name());
        if (!ends.isEmpty()) {
            writeEnds(out, ends);
        }
    }

    private static void writeEnds(JsonGenerator out, List<EndedJob> ends) throws IOException {
        out.writeObjectFieldStart("settle");
        LeaseBodies.writeDone(out, "ack", reports(ends, Done.class));
        LeaseBodies.writeFailed(out, "fail", reports(ends, Failed.class));
        out.writeEndObject();
    }

    private static <T> List<T> reports(List<EndedJob> ends, Class<T> kind) {
        return ends.stream().map(EndedJob::report).filter(kind::isInstance).map(kind::cast).toList();
    }
}
