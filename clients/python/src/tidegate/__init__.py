"""Client and worker for Tidegate, a delay-queue service over Redis."""

from ._http.repeat import RepeatLimits
from ._publish.calls import BatchResult
from ._publish.new_job import NewJob
from ._version import __version__
from .answers import (
    ActResult,
    ApiKey,
    ChangedJob,
    CreatedKey,
    JobDetails,
    JobExplanation,
    Outcome,
    Policy,
    PublishedJob,
    QueueInfo,
    Schedule,
)
from .async_client import AsyncClient
from .client import Client
from .content import Content, Pending
from .errors import (
    AuthError,
    ConflictError,
    ConnectionError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TidegateError,
)
from .options import (
    JobChange,
    JobFilter,
    PolicyChange,
    PublishOptions,
    RetryPolicy,
    ScheduleJob,
    ScheduleSpec,
)
from .worker.ends import Ack, Dead, JobAborted, JobEnd, Result, RetryIn, Snooze
from .worker.events import (
    HeartbeatFailed,
    JobAbortRequested,
    JobEnded,
    JobStarted,
    LeasesLost,
    ReportFailed,
    ReserveFailed,
    WorkerEvent,
)
from .worker.job import AbortReason, Job
from .worker.worker import Worker

__all__ = [
    "AbortReason",
    "Ack",
    "ActResult",
    "ApiKey",
    "AsyncClient",
    "AuthError",
    "BatchResult",
    "ChangedJob",
    "Client",
    "ConflictError",
    "ConnectionError",
    "Content",
    "CreatedKey",
    "Dead",
    "HeartbeatFailed",
    "InvalidRequestError",
    "Job",
    "JobAbortRequested",
    "JobAborted",
    "JobChange",
    "JobDetails",
    "JobEnd",
    "JobEnded",
    "JobExplanation",
    "JobFilter",
    "JobStarted",
    "LeasesLost",
    "NewJob",
    "NotFoundError",
    "Outcome",
    "Pending",
    "Policy",
    "PolicyChange",
    "PublishOptions",
    "PublishedJob",
    "QueueInfo",
    "RateLimitedError",
    "RepeatLimits",
    "ReportFailed",
    "ReserveFailed",
    "Result",
    "RetryIn",
    "RetryPolicy",
    "Schedule",
    "ScheduleJob",
    "ScheduleSpec",
    "ServerError",
    "Snooze",
    "TidegateError",
    "Worker",
    "WorkerEvent",
    "__version__",
]
