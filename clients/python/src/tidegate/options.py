"""The options of requests, as keyword arguments or as mappings.

Durations are `timedelta`, rounded up to whole milliseconds; instants are `datetime` with a time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict

from ._json import encode
from ._values import duration_text, instant_ms, wire_fields

IfExists = Literal["keep", "replace", "reject"]
"""The effect of a publish whose key a job has already."""
IfRunning = Literal["refuse", "ask", "revoke"]
"""The effect of a cancel on a job that a worker holds."""
JobState = Literal["delayed", "ready", "leased", "dead", "done"]
"""The state of a job."""
Scope = Literal["publish", "consume", "read", "admin"]
"""A permission of an API key."""
Action = Literal["cancel", "promote", "change", "respawn", "purge"]
"""An action on many jobs."""


class RetryPolicy(TypedDict, total=False):
    """When failed attempts are repeated. The delays are `delays`, or `every`, or `first` with `factor` and `max`."""

    delays: Sequence[timedelta]
    """1 to 16 delays; the last one repeats. Each is up to 30 days."""
    every: timedelta
    """The same delay before each attempt."""
    first: timedelta
    """The first of growing delays."""
    factor: float
    """The factor from each delay to the next, 1 to 1000. Default: 2."""
    max: timedelta
    """The longest of growing delays. Default: 1 h."""
    jitter: float
    """The random part of each delay, 0 to 1: 0.1 makes it up to 10 % longer."""
    max_attempts: int
    """After how many failures the job is dead, 1 to 4,095."""


class PublishOptions(TypedDict, total=False):
    """The options of a publish. An option that is `None` is not sent."""

    delay: timedelta | None
    """How long the job is delayed, up to 557 years. Excludes `run_at`."""
    run_at: datetime | None
    """When the job is due. The past means now."""
    key: str | None
    """A key that is unique in the queue, 1 to 255 bytes."""
    if_exists: IfExists | None
    """The effect on a job that has the key. Default: `keep`."""
    retain: timedelta | None
    """How long the finished job stays, with its key and its result: up to 7 days."""
    lease: timedelta | None
    """How long a worker may hold the job without extending its lease: 100 ms to 24 h."""
    max_attempts: int | None
    """After how many failures the job is dead, 1 to 4,095."""
    retry: RetryPolicy | None
    """When failed attempts are repeated."""
    start_within: timedelta | None
    """Drops the job if no worker has started it within this time after it was due."""
    priority: int | None
    """0 (default) to 4: ready jobs of a higher priority are delivered first."""
    group: str | None
    """The group of the job, such as a tenant: 1 to 128 bytes. Groups take turns."""
    durability: str | None
    """The copies that must exist before the publish is answered: `memory`, `fsync`, `replica:1`, `fsync+replica:1`."""
    idempotency_key: str | None
    """A repetition with the same key, within 10 minutes, returns the first job."""
    idempotent: bool | None
    """Whether the publish is made safe to repeat by a random idempotency key. Default: if it has no key."""
    max_deliveries: int | None
    """The most deliveries, as for a job of lmstfy. Excludes `max_attempts`, `retry` and `start_within`."""
    ttl: timedelta | None
    """How long after its publish the job is deleted, as for a job of lmstfy. Needs `max_deliveries`."""


class JobChange(TypedDict, total=False):
    """A change of a job that waits."""

    delay: timedelta | None
    """How long the job is delayed from now on. Excludes `run_at`."""
    run_at: datetime | None
    """When the job is due."""
    start_within: timedelta | None
    """Drops the job if no worker has started it within this time after it is due."""
    priority: int | None
    """0 to 4."""


class JobFilter(TypedDict, total=False):
    """Which jobs of a queue are listed or changed. A job matches if all fields match."""

    state: JobState | None
    due_from: datetime | None
    due_before: datetime | None
    key_prefix: str | None
    group: str | None
    attribute: str | None
    """`NAME=VALUE`."""
    error_contains: str | None
    """A part of the last error."""


class Rate(TypedDict, total=False):
    """How many jobs are delivered in a time."""

    jobs: int
    per: timedelta
    """Default: 1 s."""


class GroupPolicy(TypedDict, total=False):
    """Limits of each group of jobs."""

    max_running: int | None


class PolicyChange(TypedDict, total=False):
    """A policy of a queue, or a change of it. `None` is the default."""

    lease: timedelta | None
    retry: RetryPolicy | None
    retain: timedelta | None
    paused: bool | None
    paused_until: datetime | None
    closed: bool | None
    max_jobs: int | None
    max_running: int | None
    groups: GroupPolicy | None
    rate: Rate | None
    limit: str | None
    keep_dead: timedelta | None


class ScheduleJob(TypedDict, total=False):
    """The job that a schedule publishes: a payload, attributes and options of a publish."""

    payload: object
    payload_base64: str
    content_type: str
    attributes: dict[str, str]
    delay: timedelta
    retain: timedelta
    lease: timedelta
    max_attempts: int
    retry: RetryPolicy
    start_within: timedelta
    priority: int
    group: str


class ScheduleSpec(TypedDict, total=False):
    """When a schedule publishes a job. `queue`, `job`, and `cron` or `every` are required."""

    queue: str
    job: ScheduleJob
    cron: str
    """A pattern of five fields, or of six that begin with the seconds."""
    time_zone: str
    """A name of the IANA database. Default: `UTC`."""
    every: timedelta
    """The time between two ticks, at least 100 ms."""
    overlap: Literal["keep", "replace", "allow"]
    catch_up: Literal["one", "none", "all"]
    catch_up_window: timedelta
    starts_at: datetime
    ends_at: datetime
    paused: bool


_DURATIONS = frozenset(("delay", "retain", "lease", "start_within", "ttl"))
_INSTANTS = frozenset(("run_at", "due_from", "due_before"))


def wire_option(name: str, value: object) -> object:
    """An option of a publish, a change or a filter, as the server reads it."""
    if name in _DURATIONS:
        return duration_text(name, value)
    if name in _INSTANTS:
        return instant_ms(name, value)
    if name == "retry":
        return wire_fields(value)  # type: ignore[arg-type]
    return value


def wire_options(known: frozenset[str], options: dict[str, object]) -> dict[str, object]:
    """The options that are set, as the server reads them.

    Raises:
        TypeError: There is no such option.
    """
    unknown = options.keys() - known
    if unknown:
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
    return {n: wire_option(n, value) for n, value in options.items() if value is not None}


def query_text(value: object) -> object:
    """An option as the value of a parameter."""
    return encode(value).decode() if isinstance(value, (dict, list)) else value


def names_of(kind: type) -> frozenset[str]:
    """The names of the options of one kind."""
    return frozenset(kind.__annotations__)
