"""The events of a worker, which hooks get for logs and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..errors import TidegateError
from .job import AbortReason, Job

EndKind = Literal["done", "failed", "dead", "released", "lost"]
"""`released` also if the job was snoozed. `lost`: the lease was lost, so that nothing is reported."""

log = logging.getLogger("tidegate.worker")


@dataclass(frozen=True)
class JobStarted:
    """The handler of a job begins."""

    job: Job


@dataclass(frozen=True)
class JobEnded:
    """The handler of a job has ended, and the end will be reported to the server."""

    job: Job
    end: EndKind
    seconds: float
    """How long the handler ran."""
    error: str | None = None
    """The error of a failure."""


@dataclass(frozen=True)
class JobAbortRequested:
    """The handler of a job was told to stop."""

    job: Job
    reason: AbortReason


@dataclass(frozen=True)
class ReserveFailed:
    """Jobs could not be reserved. The worker tries it again."""

    error: TidegateError
    delay: float
    """The seconds until then."""


@dataclass(frozen=True)
class HeartbeatFailed:
    """Leases could not be extended. The worker tries it again until they have expired."""

    error: TidegateError
    jobs: int


@dataclass(frozen=True)
class ReportFailed:
    """The ends of jobs could not be reported. These jobs run again."""

    error: TidegateError
    jobs: int


@dataclass(frozen=True)
class LeasesLost:
    """Leases had expired before the ends of their jobs were reported. These jobs run again."""

    jobs: int


WorkerEvent: TypeAlias = (
    JobStarted | JobEnded | JobAbortRequested | ReserveFailed | HeartbeatFailed | ReportFailed | LeasesLost
)
"""An event of a worker."""

Hook = Callable[[WorkerEvent], object]


class Hooks:
    """The functions that get the events of a worker."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks = list(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: Hook) -> None:
        """Adds a function."""
        self._hooks.append(hook)

    def emit(self, event: WorkerEvent) -> None:
        """Calls all functions. The error of one is logged: it stops neither the worker nor the others."""
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:
                log.exception("a hook has failed")
