"""Requests about schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .._http.call import Answer, Call, json_call, segment, with_query
from .._values import instant, wire_value
from ..answers import Schedule
from .pages import Pages
from .queues import conditions


def _path(name: str, rest: str = "") -> str:
    return f"/schedules/{segment('name', name)}{rest}"


def set_schedule(name: str, spec: Mapping[str, Any], if_match: str | None, if_none_match: str | None) -> Call[Schedule]:
    """Creates or replaces a schedule."""
    body = {field: wire_value(field, value) for field, value in spec.items() if field != "job"}
    if "job" in spec:
        job = spec["job"]
        # The payload is the caller's: its values are no options.
        body["job"] = {
            field: value if field == "payload" else wire_value(f"job.{field}", value) for field, value in job.items()
        }
    headers = conditions(if_match, if_none_match)
    return json_call("PUT", _path(name), body, _read_schedule, headers=headers)


def show(name: str) -> Call[Schedule]:
    """Shows a schedule."""
    return Call("GET", _path(name), _read_schedule)


def list_schedules(page_size: int | None) -> Pages[Schedule]:
    """Lists the schedules of the namespace."""
    return Pages("/schedules", Schedule.of, page_size)


def next_runs(name: str, count: int | None) -> Call[list[datetime]]:
    """Lists the next ticks of a schedule."""
    path = with_query(_path(name, "/next"), [("count", count)])
    return Call("GET", path, lambda answer: [instant(run) for run in answer.json()["runs"]])


def delete(name: str) -> Call[dict[str, Any]]:
    """Ends a schedule."""
    return Call("DELETE", _path(name), Answer.json)


def _read_schedule(answer: Answer) -> Schedule:
    return Schedule.of(answer.json(), answer.headers.get("etag"))
