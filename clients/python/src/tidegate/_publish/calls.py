"""The requests that publish jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from .._http.call import Answer, Call, Headers, header, raw_json_call, segment, with_query
from .._http.problems import error_of_problem
from ..answers import PublishedJob
from ..content import Content, Pending
from ..errors import TidegateError
from ..options import query_text
from .new_job import NewJob, PreparedJob, prepare

REQUEST_WAIT = 20.0
"""The longest wait of one request, in seconds: proxies close connections that are silent for longer."""
BatchResult: TypeAlias = "PublishedJob | TidegateError"
"""The result for one job of a batch."""


def single_call(queue: str, job: PreparedJob) -> Call[PublishedJob]:
    """Publishes one job."""
    return _publish(queue, job, _read_published, wait=None)


def call_call(queue: str, job: PreparedJob, wait: float, give_up_after: float) -> Call[Content | Pending]:
    """Publishes one job, and waits for its result."""
    return _publish(queue, job, read_result, wait=wait, give_up_after=give_up_after)


def _publish(
    queue: str,
    job: PreparedJob,
    read: Any,
    *,
    wait: float | None,
    give_up_after: float | None = None,
) -> Call[Any]:
    parameters = [(name, query_text(value)) for name, value in job.options.items()]
    if wait is not None:
        parameters.append(("wait", f"{round(wait * 1000)}ms"))
    return Call(
        "POST",
        with_query(f"/queues/{segment('queue', queue)}/jobs{'' if wait is None else '/call'}", parameters),
        read,
        _headers(job),
        job.payload,
        wait=wait or 0.0,
        safe=job.is_safe,
        give_up_after=give_up_after,
    )


def _headers(job: PreparedJob) -> Headers:
    headers = [header("content_type", "content-type", job.content_type)]
    if job.idempotency_key is not None:
        headers.append(header("idempotency_key", "idempotency-key", job.idempotency_key))
    if job.traceparent is not None:
        headers.append(header("traceparent", "traceparent", job.traceparent))
    for name, value in job.attributes.items():
        headers.append(header("attributes", f"job-attr-{name}", value))
    return tuple(headers)


def batch_call(queue: str, jobs: Sequence[PreparedJob], *, atomic: bool = False) -> Call[list[BatchResult]]:
    """Publishes many jobs."""
    body = b"".join(
        (
            b'{"atomic":true,"jobs":[' if atomic else b'{"jobs":[',
            b",".join(job.batch_item() for job in jobs),
            b"]}",
        )
    )
    path = f"/queues/{segment('queue', queue)}/jobs/batch"

    def read(answer: Answer) -> list[BatchResult]:
        results = _read_batch(answer)
        if len(results) != len(jobs):
            raise ValueError(f"{len(results)} results for {len(jobs)} jobs")
        return results

    return raw_json_call(path, body, read, safe=all(job.is_safe for job in jobs))


def prepared_batch(jobs: Iterable[NewJob | Any]) -> list[PreparedJob]:
    """The jobs of a batch. A value that is no `NewJob` is a payload."""
    return [prepare(job if isinstance(job, NewJob) else NewJob(job)) for job in jobs]


def _read_published(answer: Answer) -> PublishedJob:
    return PublishedJob.of(answer.json())


def _read_batch(answer: Answer) -> list[BatchResult]:
    return [
        error_of_problem(result["problem"]) if "problem" in result else PublishedJob.of(result)
        for result in answer.json()["results"]
    ]


def read_result(answer: Answer) -> Content | Pending:
    """The result of a job, or its id if it is not done yet."""
    if answer.status == 202:
        return Pending(answer.json()["id"])
    if answer.status == 204:
        return Content(b"", None)
    return Content(answer.body, answer.headers.get("content-type", ""))
