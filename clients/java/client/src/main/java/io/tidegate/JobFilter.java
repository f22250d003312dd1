package io.tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.internal.Names;
import io.tidegate.model.JobState;
import java.time.Instant;
import java.util.Map;
import java.util.stream.Collectors;

/** Which jobs of a queue: the jobs that match all parts that are set. */
public final class JobFilter extends WireObject<JobFilter> {
    /** A filter that all jobs match. */
    public JobFilter() {}

    /**
     * A filter as the server reads it.
     *
     * @param filter an object with the fields of the API
     * @return the filter
     */
    public static JobFilter ofJson(JsonNode filter) {
        return new JobFilter().putAll(filter);
    }

    /**
     * Jobs in this state.
     *
     * @param state the state
     * @return this
     */
    public JobFilter state(JobState state) {
        return put("state", state);
    }

    /**
     * Jobs that are due, whose lease ends, or that have died, not before an instant.
     *
     * @param from the instant
     * @return this
     */
    public JobFilter dueFrom(Instant from) {
        return put("due_from", from);
    }

    /**
     * Jobs that are due, whose lease ends, or that have died, before an instant.
     *
     * @param before the instant
     * @return this
     */
    public JobFilter dueBefore(Instant before) {
        return put("due_before", before);
    }

    /**
     * Jobs whose keys begin with a text.
     *
     * @param prefix the text
     * @return this
     */
    public JobFilter keyPrefix(String prefix) {
        return put("key_prefix", prefix);
    }

    /**
     * Jobs of a group.
     *
     * @param group the group
     * @return this
     */
    public JobFilter group(String group) {
        return put("group", group);
    }

    /**
     * Jobs with an attribute.
     *
     * @param name its name
     * @param value its value
     * @return this
     */
    public JobFilter attribute(String name, String value) {
        return put("attribute", name + "=" + value);
    }

    /**
     * Jobs whose last error contains a text, with the same upper and lower case.
     *
     * @param text the text
     * @return this
     */
    public JobFilter errorContains(String text) {
        return put("error_contains", text);
    }

    /** The parameters of a list. */
    String query() {
        return json().properties().stream()
                .map(JobFilter::parameter)
                .collect(Collectors.joining("&"));
    }

    private static String parameter(Map.Entry<String, JsonNode> field) {
        return field.getKey() + "=" + Names.encode(field.getValue().asText());
    }
}
