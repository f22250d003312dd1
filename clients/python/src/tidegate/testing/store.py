"""The jobs of a namespace of the fake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..content import Content
from .clock import FakeClock
from .jobs import FakeJob, ms_of


class Refusal(Exception):
    """The answer is a problem document."""

    def __init__(self, status: int, code: str, detail: str = "", **fields: Any) -> None:
        super().__init__(code)
        self.status = status
        self.problem = {"status": status, "code": code, "detail": detail or code, "applied": "no"}
        self.problem.update(fields)


class Store:
    """All jobs, by queue."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._jobs: dict[str, FakeJob] = {}
        self._remembered: dict[str, str] = {}
        self._number = 0

    def jobs(self, queue: str | None = None) -> list[FakeJob]:
        """The jobs of a queue, or of all queues."""
        self._settle()
        return [job for job in self._jobs.values() if queue in (None, job.queue)]

    def find(self, queue: str, id: str | None, key: str | None) -> FakeJob:
        """A job by its id or its key."""
        for job in self.jobs(queue):
            if (id is not None and job.id == id) or (key is not None and job.key == key):
                return job
        raise Refusal(404, "job_not_found", "The queue has no job with this id or key.")

    def publish(
        self, queue: str, content: Content, attributes: dict[str, str], options: dict[str, Any]
    ) -> tuple[FakeJob, str]:
        """Publishes a job. Returns it, and the outcome."""
        remembered = self._remembered.get(options.get("idempotency_key", ""))
        if remembered is not None and remembered in self._jobs:
            return self._jobs[remembered], "created"
        new = self._new(queue, content, attributes, options)
        found = self._with_key(queue, new.key)
        job, outcome = (new, "created") if found is None else self._replace(found, new)
        self._jobs[job.id] = job
        if options.get("idempotency_key"):
            self._remembered[options["idempotency_key"]] = job.id
        return job, outcome

    def reserve(self, queues: Iterable[str], most: int, lease_ms: int | None) -> list[FakeJob]:
        """Reserves jobs that are due."""
        taken: list[FakeJob] = []
        for queue in queues:
            due = [job for job in self.jobs(queue) if job.is_due(self.clock.ms)]
            due.sort(key=lambda job: (-int(job.options.get("priority", 0)), job.run_ms, job.number))
            taken.extend(due[: most - len(taken)])
        for job in taken:
            job.take(self.clock.ms, lease_ms)
        return taken

    def held(self, lease: str) -> FakeJob | None:
        """The job with this lease, if the lease is valid."""
        return next((j for j in self.jobs() if j.state == "leased" and j.lease == lease), None)

    def missing_outcome(self, lease: str) -> str:
        """The outcome for a lease that is not valid."""
        job = self._jobs.get(lease.split(".", 1)[0])
        return "gone" if job is None or job.state == "done" else "lost"

    def ack(self, lease: str, result: Content | None) -> str:
        """A worker has done a job."""
        job = self.held(lease)
        if job is None:
            return self.missing_outcome(lease)
        if self._rerun(job):
            return "rerun"
        job.state, job.done_ms, job.result = "done", self.clock.ms, result
        self._settle()
        return "done"

    def fail(self, lease: str, error: str, retry_ms: int | None, is_dead: bool) -> tuple[str, FakeJob | None]:
        """An attempt has failed. Returns the outcome, and the job if it is retried."""
        job = self.held(lease)
        if job is None:
            return self.missing_outcome(lease), None
        if job.cancel_requested:
            del self._jobs[job.id]
            return "cancelled", None
        if self._rerun(job):
            return "rerun", None
        job.fail(error, self.clock.ms, retry_ms, is_dead)
        return ("dead", None) if job.state == "dead" else ("retry", job)

    def release(self, lease: str, delay_ms: int) -> str:
        """A worker gives a job back."""
        job = self.held(lease)
        if job is None:
            return self.missing_outcome(lease)
        if job.cancel_requested:
            del self._jobs[job.id]
            return "cancelled"
        if self._rerun(job):
            return "rerun"
        job.wait_until(self.clock.ms + delay_ms, self.clock.ms)
        return "released"

    def touch(self, lease: str, lease_ms: int | None) -> FakeJob | str:
        """A worker extends a lease."""
        job = self.held(lease)
        if job is None:
            return self.missing_outcome(lease)
        job.lease_until = max(job.lease_until, self.clock.ms + (lease_ms or job.lease_ms))
        return job

    def cancel(self, job: FakeJob, running: str) -> dict[str, Any]:
        """A producer cancels a job."""
        if job.state == "done":
            return {"outcome": "already_done", "id": job.id}
        if job.state != "leased":
            del self._jobs[job.id]
            return {"outcome": "cancelled", "id": job.id, "was": job.state}
        if running == "ask":
            job.cancel_requested, job.newer = True, None
            return {"outcome": "cancel_requested", "id": job.id}
        if running == "revoke":
            del self._jobs[job.id]
            return {"outcome": "revoked", "id": job.id}
        raise Refusal(409, "job_running", "A worker holds the job.")

    def purge(self, queue: str, state: str) -> int:
        """Deletes all jobs of a state."""
        purged = [job.id for job in self.jobs(queue) if job.state == state]
        for id in purged:
            del self._jobs[id]
        return len(purged)

    def respawn(self, queue: str) -> int:
        """Brings dead jobs back."""
        dead = [job for job in self.jobs(queue) if job.state == "dead"]
        for job in dead:
            job.failures = job.losses = 0
            job.reason = None
            job.wait_until(self.clock.ms, self.clock.ms)
        return len(dead)

    def _new(self, queue: str, content: Content, attributes: dict[str, str], options: dict[str, Any]) -> FakeJob:
        self._number += 1
        now = self.clock.ms
        job = FakeJob(f"{self._number:026d}", queue, content, attributes, options, now, now, self._number)
        run_at = options.get("run_at")
        due = int(run_at) if run_at is not None else now + (ms_of(options.get("delay")) or 0)
        job.wait_until(max(due, now), now)
        return job

    def _with_key(self, queue: str, key: str | None) -> FakeJob | None:
        return next((job for job in self.jobs(queue) if key is not None and job.key == key), None)

    def _replace(self, found: FakeJob, new: FakeJob) -> tuple[FakeJob, str]:
        """The effect of a publish on the job that has its key."""
        rule = new.options.get("if_exists", "keep")
        if found.state == "dead":
            new.id = found.id
            return new, "revived"
        if rule == "reject":
            raise Refusal(409, "key_taken", "A job has this key, and `if_exists` is `reject`.")
        if found.state == "leased" and (rule == "replace" or found.cancel_requested):
            found.newer, found.cancel_requested = new, False
            return found, "rerun"
        if rule == "keep":
            return found, "exists"
        if found.state == "done":
            del self._jobs[found.id]
            return new, "created"
        new.id, new.attempt = found.id, found.attempt
        return new, "replaced"

    def _rerun(self, job: FakeJob) -> bool:
        """Whether the job was replaced while it ran. Then it waits in its new version."""
        newer = job.newer
        if newer is None:
            return False
        newer.id, newer.attempt = job.id, job.attempt
        newer.wait_until(newer.run_ms, self.clock.ms)
        self._jobs[job.id] = newer
        return True

    def _settle(self) -> None:
        """Brings all jobs to the time of the clock."""
        now = self.clock.ms
        for job in list(self._each_to_settle()):
            if job.state == "delayed" and job.run_ms <= now:
                job.state = "ready"
            elif job.state == "leased" and job.lease_until <= now:
                if job.cancel_requested:
                    del self._jobs[job.id]
                else:
                    job.lose(now)
            elif job.state == "done" and now >= job.done_ms + (ms_of(job.options.get("retain")) or 0):
                del self._jobs[job.id]

    def _each_to_settle(self) -> Iterator[FakeJob]:
        return (job for job in self._jobs.values() if job.state in ("delayed", "leased", "done"))
