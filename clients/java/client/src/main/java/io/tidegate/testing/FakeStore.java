package io.tidegate.testing;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.Payload;
import io.tidegate.model.JobDetails;
import io.tidegate.model.JobState;
import io.tidegate.model.PublishOutcome;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** The jobs of the fake, and the rules by which they go on. */
final class FakeStore {
    private static final Duration LEASE = Duration.ofSeconds(60);

    private final List<FakeEntry> entries = new ArrayList<>();
    private final Map<String, FakeEntry> byIdempotencyKey = new HashMap<>();
    private Instant now;

    FakeStore(Instant begin) {
        this.now = begin;
    }

    /** A publish, and the job that it has found or made. */
    record Published(PublishOutcome outcome, FakeEntry job, boolean isReplayed) {}

    /** The outcome of a call about a lease, and the job, if the lease was valid. */
    record Settled(String outcome, FakeEntry job) {}

    synchronized Instant now() {
        return now;
    }

    synchronized void advance(Duration duration) {
        now = now.plus(duration);
        tick();
    }

    private void tick() {
        for (FakeEntry job : entries) {
            if (job.state == JobState.DELAYED && !job.runAt.isAfter(now)) {
                job.state = JobState.READY;
            } else if (job.state == JobState.LEASED && !job.leaseUntil.isAfter(now)) {
                job.losses++;
                giveBack(job, now);
            } else if (job.state == JobState.DONE && !job.doneAt.plus(retain(job)).isAfter(now)) {
                job.state = null;
            } else if (job.state == JobState.READY && isTooLate(job)) {
                job.state = null;
            }
        }
    }

    private boolean isTooLate(FakeEntry job) {
        Duration limit = job.duration("start_within", null);
        return limit != null && job.attempt == 0 && job.runAt.plus(limit).isBefore(now);
    }

    private static Duration retain(FakeEntry job) {
        return job.duration("retain", Duration.ZERO);
    }

    synchronized List<FakeJob> published(String queue) {
        return entries.stream().filter(job -> job.queue.equals(queue)).map(FakeEntry::view).toList();
    }

    synchronized List<JobDetails> list(String queue, String state, String keyPrefix, String group) {
        return present(queue)
                .filter(job -> state == null || job.state.name().equalsIgnoreCase(state))
                .filter(job -> keyPrefix == null || job.key != null && job.key.startsWith(keyPrefix))
                .filter(job -> group == null || group.equals(job.group()))
                .map(FakeEntry::details)
                .toList();
    }

    synchronized long count(String queue, JobState state) {
        return present(queue).filter(job -> job.state == state).count();
    }

    private Stream<FakeEntry> present(String queue) {
        return entries.stream().filter(job -> job.state != null && job.queue.equals(queue));
    }

    synchronized Published publish(String queue, Payload payload, Map<String, String> attributes, JsonNode options)
            throws FakeProblem {
        String idempotencyKey = options.path("idempotency_key").asText(null);
        FakeEntry first = idempotencyKey == null ? null : byIdempotencyKey.get(queue + "/" + idempotencyKey);
        if (first != null) {
            return new Published(PublishOutcome.CREATED, first, true);
        }
        String key = options.path("key").asText(null);
        Optional<FakeEntry> found = key == null ? Optional.empty() : withKey(queue, key);
        Published published = found.isPresent()
                ? publishAgain(found.get(), payload, attributes, options)
                : create(queue, key, payload, attributes, options);
        if (idempotencyKey != null) {
            byIdempotencyKey.put(queue + "/" + idempotencyKey, published.job);
        }
        return published;
    }

    private Optional<FakeEntry> withKey(String queue, String key) {
        return present(queue).filter(job -> key.equals(job.key)).findFirst();
    }

    private Published create(
            String queue, String key, Payload payload, Map<String, String> attributes, JsonNode options) {
        // As long as an id of the server, and in the order of publishes.
        FakeEntry job = new FakeEntry(String.format("%026d", entries.size() + 1), queue, key, now);
        job.fill(payload, attributes, options, now);
        job.becomeDue(job.runAt, now);
        entries.add(job);
        return new Published(PublishOutcome.CREATED, job, false);
    }

    private Published publishAgain(
            FakeEntry job, Payload payload, Map<String, String> attributes, JsonNode options) throws FakeProblem {
        String ifExists = options.path("if_exists").asText("keep");
        if (job.state == JobState.DEAD) {
            job.fill(payload, attributes, options, now);
            job.errors.clear();
            job.becomeDue(job.runAt, now);
            return new Published(PublishOutcome.REVIVED, job, false);
        }
        if (ifExists.equals("reject")) {
            throw new FakeProblem(409, "key_taken", "A job has this key, and `if_exists` is `reject`.");
        }
        if (ifExists.equals("replace") && job.state == JobState.DONE) {
            job.state = null;
            return create(job.queue, job.key, payload, attributes, options);
        }
        boolean reruns = job.state == JobState.LEASED && (ifExists.equals("replace") || job.isCancelRequested);
        if (reruns) {
            job.fill(payload, attributes, options, now);
            job.isReplaced = true;
            job.isCancelRequested = false;
            return new Published(PublishOutcome.RERUN, job, false);
        }
        if (ifExists.equals("replace")) {
            job.fill(payload, attributes, options, now);
            job.becomeDue(job.runAt, now);
            return new Published(PublishOutcome.REPLACED, job, false);
        }
        return new Published(PublishOutcome.EXISTS, job, false);
    }

    /** The job of a path: {@code ID}, {@code key:KEY}, or {@code -} with a key. */
    synchronized FakeEntry find(String queue, String text, String key) throws FakeProblem {
        String wanted = text.startsWith("key:") ? text.substring(4) : key;
        Stream<FakeEntry> jobs = present(queue);
        Optional<FakeEntry> found = wanted != null
                ? jobs.filter(job -> wanted.equals(job.key)).findFirst()
                : jobs.filter(job -> text.equals(job.id)).findFirst();
        return found.orElseThrow(FakeProblem::notFound);
    }

    synchronized String cancel(FakeEntry job, String running) throws FakeProblem {
        if (job.state == JobState.DONE) {
            return "already_done";
        }
        if (job.state != JobState.LEASED) {
            job.state = null;
            return "cancelled";
        }
        switch (running) {
            case "ask" -> {
                job.isCancelRequested = true;
                return "cancel_requested";
            }
            case "revoke" -> {
                job.state = null;
                return "revoked";
            }
            default -> throw new FakeProblem(409, "job_running", "A worker holds the job.");
        }
    }

    synchronized void change(FakeEntry job, JsonNode change) throws FakeProblem {
        requireWaiting(job);
        if (change.has("priority")) {
            ((com.fasterxml.jackson.databind.node.ObjectNode) job.options).set("priority", change.get("priority"));
        }
        if (change.has("run_at")) {
            job.becomeDue(Instant.ofEpochMilli(change.get("run_at").asLong()), now);
        } else if (change.has("delay")) {
            job.becomeDue(now.plus(FakeEntry.parse(change.get("delay").asText())), now);
        }
    }

    synchronized String promote(FakeEntry job) throws FakeProblem {
        requireWaiting(job);
        boolean isReady = job.state == JobState.READY;
        if (!isReady) {
            job.becomeDue(now, now);
        }
        return isReady ? "already_ready" : "promoted";
    }

    private static void requireWaiting(FakeEntry job) throws FakeProblem {
        if (job.state == JobState.LEASED) {
            throw new FakeProblem(409, "job_running", "A worker holds the job.");
        }
        if (job.state == JobState.DEAD) {
            throw new FakeProblem(409, "job_dead", "The job is in the dead letter.");
        }
        if (job.state == JobState.DONE) {
            throw FakeProblem.notFound();
        }
    }

    synchronized List<FakeEntry> reserve(List<String> queues, int maxJobs, Duration lease) {
        tick();
        List<FakeEntry> jobs = entries.stream()
                .filter(job -> job.state == JobState.READY && queues.contains(job.queue))
                .sorted(Comparator.comparingInt((FakeEntry job) -> -job.priority()).thenComparing(job -> job.runAt))
                .limit(maxJobs)
                .toList();
        for (FakeEntry job : jobs) {
            job.attempt++;
            job.leaseLength = lease != null ? lease : job.duration("lease", LEASE);
            job.leaseUntil = now.plus(job.leaseLength);
            job.lease = job.id + "." + job.attempt + "." + job.queue;
            job.state = JobState.LEASED;
        }
        return jobs;
    }

    private FakeEntry holder(String lease) {
        return entries.stream()
                .filter(job -> job.state == JobState.LEASED && lease.equals(job.lease))
                .findFirst()
                .orElse(null);
    }

    private String withoutHolder(String lease) {
        String id = lease.split("\\.")[0];
        boolean isThere = entries.stream()
                .anyMatch(job -> job.state != null && job.state != JobState.DONE && job.id.equals(id));
        return isThere ? "lost" : "gone";
    }

    synchronized Settled ack(String lease, Payload result) {
        FakeEntry job = holder(lease);
        if (job == null) {
            return new Settled(withoutHolder(lease), null);
        }
        if (rerun(job)) {
            return new Settled("rerun", job);
        }
        job.lease = null;
        job.leaseUntil = null;
        job.doneAt = now;
        job.result = result;
        job.state = retain(job).isZero() ? null : JobState.DONE;
        return new Settled("done", job);
    }

    synchronized Settled fail(String lease, String error, Duration retryIn, boolean isDead) {
        FakeEntry job = holder(lease);
        if (job == null) {
            return new Settled(withoutHolder(lease), null);
        }
        job.errors.add(error);
        job.history.add(new JobDetails.Failed(job.attempt, now, error));
        if (rerun(job)) {
            return new Settled("rerun", job);
        }
        if (job.isCancelRequested) {
            job.state = null;
            return new Settled("cancelled", job);
        }
        if (isDead || job.errors.size() >= job.maxAttempts()) {
            job.lease = null;
            job.leaseUntil = null;
            job.state = JobState.DEAD;
            return new Settled("dead", job);
        }
        Duration delay = retryIn != null ? retryIn : job.retryDelay(job.errors.size());
        job.becomeDue(now.plus(delay), now);
        return new Settled("retry", job);
    }

    synchronized Settled touch(String lease, Duration length) {
        FakeEntry job = holder(lease);
        if (job == null) {
            return new Settled(withoutHolder(lease), null);
        }
        Instant until = now.plus(length != null ? length : job.leaseLength);
        job.leaseUntil = until.isAfter(job.leaseUntil) ? until : job.leaseUntil;
        return new Settled("extended", job);
    }

    synchronized Settled release(String lease, Duration delay) {
        FakeEntry job = holder(lease);
        if (job == null) {
            return new Settled(withoutHolder(lease), null);
        }
        return new Settled(giveBack(job, now.plus(delay)), job);
    }

    private String giveBack(FakeEntry job, Instant when) {
        if (rerun(job)) {
            return "rerun";
        }
        if (job.isCancelRequested) {
            job.state = null;
            return "cancelled";
        }
        job.becomeDue(when, now);
        return "released";
    }

    private boolean rerun(FakeEntry job) {
        if (job.isReplaced) {
            job.isReplaced = false;
            job.becomeDue(job.runAt, now);
            return true;
        }
        return false;
    }
}
