"""Requests about queues as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .._http.call import Answer, Call, Headers, header, json_call, segment
from .._values import wire_fields
from ..answers import Policy, QueueInfo
from .pages import Pages


def _path(queue: str, rest: str = "") -> str:
    return f"/queues/{segment('queue', queue)}{rest}"


def show(queue: str) -> Call[QueueInfo]:
    """Counts the jobs of a queue."""
    return Call("GET", _path(queue), lambda answer: QueueInfo.of(answer.json()))


def list_queues(page_size: int | None) -> Pages[QueueInfo]:
    """Lists the queues of the namespace."""
    return Pages("/queues", QueueInfo.of, page_size)


def policy(queue: str) -> Call[Policy]:
    """Reads the policy of a queue."""
    return Call("GET", _path(queue, "/policy"), _read_policy)


def set_policy(queue: str, change: Mapping[str, Any], if_match: str | None, *, replaces: bool) -> Call[Policy]:
    """Changes or replaces the policy of a queue."""
    return json_call(
        "PUT" if replaces else "PATCH",
        _path(queue, "/policy"),
        wire_fields(change),
        _read_policy,
        headers=conditions(if_match, None),
    )


def conditions(if_match: str | None, if_none_match: str | None) -> Headers:
    """The conditions of a change."""
    given = (("if-match", if_match), ("if-none-match", if_none_match))
    return tuple(header(name.replace("-", "_"), name, value) for name, value in given if value is not None)


def purge(queue: str, state: Literal["ready", "dead"]) -> Call[int]:
    """Deletes all ready or all dead jobs. The number in the answer to a repetition would be wrong."""
    return json_call(
        "POST",
        _path(queue, "/purge"),
        {"state": state},
        lambda answer: int(answer.json()["deleted"]),
        safe=False,
    )


def respawn(queue: str, limit: int | None, rate_per_second: int | None) -> Call[int]:
    """Brings dead jobs back. The number in the answer to a repetition would be wrong."""
    body = {"limit": limit, "rate_per_second": rate_per_second}
    return json_call(
        "POST",
        _path(queue, "/respawn"),
        {name: value for name, value in body.items() if value is not None},
        lambda answer: int(answer.json()["respawned"]),
        safe=False,
    )


def delete(queue: str) -> Call[dict[str, Any]]:
    """Deletes an empty queue, and its policy."""
    return Call("DELETE", _path(queue), Answer.json)


def _read_policy(answer: Answer) -> Policy:
    return Policy.of(answer.json(), answer.headers.get("etag"))
