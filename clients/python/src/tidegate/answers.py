"""The answers of the server. Each has the complete answer as `raw`, with fields that this version does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ._values import instant, read_instant, read_ms


@dataclass(frozen=True)
class PublishedJob:
    """The job that a publish created or found."""

    id: str
    """The id of the job."""
    queue: str
    outcome: str
    """`created`, `exists`, `replaced`, `rerun` or `revived`."""
    state: str
    """The state of the job then."""
    run_at: datetime | None
    """When it is due. `None` if it is done, or a worker holds it and it will not run again."""
    key: str | None
    durability: str
    """The copies of the job that exist."""
    replayed: bool
    """Whether this is the answer to an earlier publish with the same idempotency key."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> PublishedJob:
        """Reads the answer."""
        return PublishedJob(
            id=raw["id"],
            queue=raw["queue"],
            outcome=raw["outcome"],
            state=raw["state"],
            run_at=read_instant(raw.get("run_at")),
            key=raw.get("key"),
            durability=raw.get("durability", ""),
            replayed=raw.get("replayed", False),
            raw=raw,
        )


@dataclass(frozen=True)
class JobDetails:
    """All about a job, except its payload. Fields that do not apply to its state are `None`."""

    id: str
    queue: str
    state: str
    key: str | None
    group: str | None
    priority: int
    created_at: datetime | None
    run_at: datetime | None
    """When it is or was due."""
    lease_until: datetime | None
    """When its lease ends, if a worker holds it."""
    done_at: datetime | None
    attempt: int
    """The number of the last attempt; 0 if there was none."""
    failures: int
    losses: int
    """How often a worker was lost while it held the job."""
    max_attempts: int | None
    content_type: str | None
    payload_bytes: int
    result_bytes: int | None
    attributes: Mapping[str, str]
    reason: str | None
    """Why it is dead: `failures`, `permanent`, `losses` or `unreadable`."""
    history: tuple[Mapping[str, Any], ...]
    """The last attempts that failed, oldest first, at most 10: `attempt`, `ended_at`, `error`."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> JobDetails:
        """Reads the answer."""
        return JobDetails(
            id=raw["id"],
            queue=raw["queue"],
            state=raw["state"],
            key=raw.get("key"),
            group=raw.get("group"),
            priority=raw.get("priority", 0),
            created_at=read_instant(raw.get("created_at")),
            run_at=read_instant(raw.get("run_at")),
            lease_until=read_instant(raw.get("lease_until")),
            done_at=read_instant(raw.get("done_at")),
            attempt=raw.get("attempt", 0),
            failures=raw.get("failures", 0),
            losses=raw.get("losses", 0),
            max_attempts=raw.get("max_attempts"),
            content_type=raw.get("content_type"),
            payload_bytes=raw.get("payload_bytes", 0),
            result_bytes=raw.get("result_bytes"),
            attributes=raw.get("attributes", {}),
            reason=raw.get("reason"),
            history=tuple(raw.get("history", ())),
            raw=raw,
        )


@dataclass(frozen=True)
class JobExplanation:
    """Why a job does not run now, or not any more."""

    id: str
    state: str
    cause: str
    """The machine-readable cause, such as `not_due`, `paused` or `no_worker`."""
    summary: str
    """The cause in one sentence, for people."""
    facts: tuple[Mapping[str, Any], ...]
    """Further facts: `code`, `text`, and `at` or `count`."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> JobExplanation:
        """Reads the answer."""
        return JobExplanation(
            id=raw["id"],
            state=raw["state"],
            cause=raw["cause"],
            summary=raw["summary"],
            facts=tuple(raw.get("facts", ())),
            raw=raw,
        )


@dataclass(frozen=True)
class ChangedJob:
    """A job that was changed, promoted or cancelled."""

    id: str
    outcome: str
    """`changed`, `promoted`, `cancelled`, `cancel_requested`, `revoked` or `already_done`."""
    state: str | None
    """The state of the job. `None` if it is deleted."""
    was: str | None
    """The state of a job before it was cancelled."""
    run_at: datetime | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> ChangedJob:
        """Reads the answer."""
        return ChangedJob(
            id=raw["id"],
            outcome=raw["outcome"],
            state=raw.get("state"),
            was=raw.get("was"),
            run_at=read_instant(raw.get("run_at")),
            raw=raw,
        )


@dataclass(frozen=True)
class ActResult:
    """The effect of an action on many jobs."""

    matched: int
    """Jobs that were found."""
    changed: int
    """Jobs that were changed."""


@dataclass(frozen=True)
class Outcome:
    """The outcome for one lease."""

    outcome: str
    """`done`, `retry`, `dead`, `extended`, `released`, `cancelled`, `rerun`, `lost` or `gone`."""
    run_at: datetime | None
    """When a failed job is due again."""
    lease_until: datetime | None
    """When an extended lease ends."""
    cancel_requested: bool
    """Whether the producer has requested a cancel: stop, and fail or release the job."""
    result_dropped: bool
    """Whether the server had no memory for the result."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> Outcome:
        """Reads the answer."""
        return Outcome(
            outcome=raw["outcome"],
            run_at=read_instant(raw.get("run_at")),
            lease_until=read_instant(raw.get("lease_until")),
            cancel_requested=raw.get("cancel_requested", False),
            result_dropped=raw.get("result_dropped", False),
            raw=raw,
        )


@dataclass(frozen=True)
class QueueInfo:
    """How many jobs a queue has, by state, and whether it is paused or closed."""

    queue: str
    delayed: int
    ready: int
    leased: int
    dead: int
    done: int
    paused: bool
    closed: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> QueueInfo:
        """Reads the answer."""
        jobs = raw["jobs"]
        states = {state: jobs.get(state, 0) for state in _STATES}
        return QueueInfo(queue=raw["queue"], **states, paused=raw["paused"], closed=raw["closed"], raw=raw)


_STATES = ("delayed", "ready", "leased", "dead", "done")


@dataclass(frozen=True)
class Policy:
    """The policy of a queue."""

    lease: timedelta
    """The length of a lease, if neither the reserve call nor the job says it."""
    retry: Mapping[str, Any]
    """When failed attempts are repeated, as the server writes it: durations are integers of ms."""
    retain: timedelta
    """How long a finished job stays with its key."""
    paused: bool
    paused_until: datetime | None
    closed: bool
    max_jobs: int | None
    max_running: int | None
    group_max_running: int | None
    """How many jobs of each group workers hold at the same time."""
    rate_jobs: int | None
    rate_per: timedelta | None
    limit: str | None
    """The limit that the queue shares with other queues."""
    keep_dead: timedelta | None
    """How long dead jobs are kept. `None` is for ever."""
    etag: str | None
    """The version, for `if_match`."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any], etag: str | None = None) -> Policy:
        """Reads the answer."""
        rate = raw.get("rate") or {}
        return Policy(
            lease=timedelta(milliseconds=raw["lease_ms"]),
            retry=raw["retry"],
            retain=timedelta(milliseconds=raw["retain_ms"]),
            paused=raw["paused"],
            paused_until=read_instant(raw.get("paused_until")),
            closed=raw["closed"],
            max_jobs=raw.get("max_jobs"),
            max_running=raw.get("max_running"),
            group_max_running=(raw.get("groups") or {}).get("max_running"),
            rate_jobs=rate.get("jobs"),
            rate_per=read_ms(rate.get("per_ms")),
            limit=raw.get("limit"),
            keep_dead=read_ms(raw.get("keep_dead_ms")),
            etag=etag,
            raw=raw,
        )


@dataclass(frozen=True)
class Schedule:
    """A schedule."""

    name: str
    config: Mapping[str, Any]
    """The schedule as the server writes it: durations and instants are texts."""
    next_run: datetime | None
    """The next tick. `None` if the schedule is paused or has ended."""
    etag: str | None
    """The version, for `if_match`."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any], etag: str | None = None) -> Schedule:
        """Reads the answer."""
        return Schedule(
            name=raw["name"],
            config=raw["config"],
            next_run=read_instant(raw.get("next_run")),
            etag=etag,
            raw=raw,
        )


@dataclass(frozen=True)
class ApiKey:
    """An API key without its secret."""

    id: str
    namespace: str
    scopes: tuple[str, ...]
    description: str
    created_at: datetime
    expires_at: datetime | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> ApiKey:
        """Reads the answer."""
        return ApiKey(
            id=raw["id"],
            namespace=raw["namespace"],
            scopes=tuple(raw["scopes"]),
            description=raw["description"],
            created_at=instant(raw["created_at"]),
            expires_at=read_instant(raw.get("expires_at")),
            raw=raw,
        )


@dataclass(frozen=True)
class CreatedKey:
    """A new API key. Only this answer has its secret."""

    secret: str = field(repr=False)
    key: ApiKey
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: Mapping[str, Any]) -> CreatedKey:
        """Reads the answer."""
        return CreatedKey(secret=raw["secret"], key=ApiKey.of(raw["key"]), raw=raw)
