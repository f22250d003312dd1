"""Requests about single jobs, and about many jobs of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._http.call import Answer, Call, encoded, json_call, segment, with_query
from .._publish.calls import read_result
from ..answers import ChangedJob, JobDetails, JobExplanation
from ..content import Content, Pending
from ..errors import InvalidRequestError
from ..options import IfRunning, JobChange, JobFilter, names_of, wire_options
from .pages import Pages

_CHANGES = names_of(JobChange)
_FILTERS = names_of(JobFilter)


def job_path(queue: str, id: str | None, key: str | None, rest: str = "") -> str:
    """The path of a job.

    Raises:
        InvalidRequestError: Neither an id nor a key is given, or both.
    """
    if (id is None) == (key is None):
        raise InvalidRequestError("a job has either an id or key=…", field="id")
    jobs = f"/queues/{segment('queue', queue)}/jobs"
    if key is None:
        return f"{jobs}/{segment('id', str(id))}{rest}"
    if not key:
        raise InvalidRequestError("a key has 1 to 255 bytes", field="key")
    if "/" in key:
        # Proxies decode %2F in a path.
        return with_query(f"{jobs}/-{rest}", [("key", key)])
    return f"{jobs}/key:{encoded(key)}{rest}"


def show(queue: str, id: str | None, key: str | None) -> Call[JobDetails]:
    """Shows a job."""
    return Call("GET", job_path(queue, id, key), lambda answer: JobDetails.of(answer.json()))


def explain(queue: str, id: str | None, key: str | None) -> Call[JobExplanation]:
    """Says why a job does not run."""
    path = job_path(queue, id, key, "/explain")
    return Call("GET", path, lambda answer: JobExplanation.of(answer.json()))


def payload(queue: str, id: str | None, key: str | None) -> Call[Content]:
    """Reads the payload of a job."""
    return Call("GET", job_path(queue, id, key, "/payload"), _read_content)


def result(queue: str, id: str | None, key: str | None, wait: float, limit: float) -> Call[Content | Pending]:
    """Reads the result of a job, and waits for it."""
    parameters = [("wait", f"{round(wait * 1000)}ms" if wait > 0 else None)]
    path = with_query(job_path(queue, id, key, "/result"), parameters)
    return Call("GET", path, read_result, wait=wait, give_up_after=limit)


def change(queue: str, id: str | None, key: str | None, options: Mapping[str, Any]) -> Call[ChangedJob]:
    """Changes a job that waits."""
    body = wire_options(_CHANGES, dict(options))
    return json_call("PATCH", job_path(queue, id, key), body, _read_changed)


def promote(queue: str, id: str | None, key: str | None) -> Call[ChangedJob]:
    """Makes a delayed job ready."""
    return Call("POST", job_path(queue, id, key, "/promote"), _read_changed)


def cancel(queue: str, id: str | None, key: str | None, running: IfRunning | None) -> Call[ChangedJob]:
    """Cancels a job."""
    return Call("DELETE", with_query(job_path(queue, id, key), [("running", running)]), _read_changed)


def list_jobs(queue: str, page_size: int | None, filter: Mapping[str, Any]) -> Pages[JobDetails]:
    """Lists the jobs of a queue."""
    parameters = tuple(wire_options(_FILTERS, dict(filter)).items())
    return Pages(f"/queues/{segment('queue', queue)}/jobs", JobDetails.of, page_size, parameters)


def act_body(
    action: str,
    filter: Mapping[str, Any] | None,
    *,
    dry_run: bool,
    running: IfRunning | None,
    change: Mapping[str, Any] | None,
    rate_per_second: int | None,
    page_size: int | None,
) -> dict[str, Any]:
    """The body of an action on many jobs, without a cursor."""
    body: dict[str, Any] = {
        "do": action,
        "filter": wire_options(_FILTERS, dict(filter or {})),
        "running": running,
        "rate_per_second": rate_per_second,
        "limit": page_size,
    }
    if change is not None:
        body["change"] = wire_options(_CHANGES, dict(change))
    if dry_run:
        body["dry_run"] = True
    return {name: value for name, value in body.items() if value is not None}


def act(queue: str, body: Mapping[str, Any], cursor: str | None) -> Call[dict[str, Any]]:
    """One page of an action on many jobs."""
    page = dict(body) if cursor is None else {**body, "cursor": cursor}
    path = f"/queues/{segment('queue', queue)}/jobs/act"
    return json_call("POST", path, page, Answer.json)


def _read_changed(answer: Answer) -> ChangedJob:
    return ChangedJob.of(answer.json())


def _read_content(answer: Answer) -> Content:
    return Content(answer.body, answer.headers.get("content-type", ""))
