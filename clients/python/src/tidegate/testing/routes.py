"""The requests that the fake answers."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx

from .._json import JSON, decode, encode, is_json
from ..content import Content
from .jobs import FakeJob, ms_of
from .store import Refusal, Store

_QUEUE = r"/queues/(?P<queue>[^/]+)"
_JOB = _QUEUE + r"/jobs/(?P<job>[^/]+)"
_Handler = Callable[["Routes", httpx.Request, dict[str, str], dict[str, str]], httpx.Response]
_ROUTES: list[tuple[str, re.Pattern[str], _Handler]] = []


def _route(method: str, pattern: str) -> Callable[[_Handler], _Handler]:
    def add(handler: _Handler) -> _Handler:
        _ROUTES.append((method, re.compile(pattern), handler))
        return handler

    return add


class Routes:
    """Answers requests from the store."""

    def __init__(self, store: Store, on_publish: Callable[[FakeJob], None]) -> None:
        self._store = store
        self._on_publish = on_publish

    def answer(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request."""
        path, _, query = request.url.raw_path.decode().partition("?")
        path = re.sub(r"^/v1/[^/]+", "", path)
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        try:
            for method, pattern, handler in _ROUTES:
                found = pattern.fullmatch(path)
                if found and method == request.method:
                    named = {name: unquote(text) for name, text in found.groupdict().items()}
                    return handler(self, request, named, parameters)
            raise Refusal(501, "not_in_fake", f"the fake does not know {request.method} {path}")
        except Refusal as refusal:
            return _json(refusal.problem, refusal.status)

    @_route("POST", _QUEUE + "/jobs")
    def _publish(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        job, outcome = self._stored_single(request, path["queue"], query)
        return _json(_published(job, outcome), 201 if outcome == "created" else 200)

    @_route("POST", _QUEUE + "/jobs/call")
    def _call(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        options = {name: value for name, value in query.items() if name != "wait"}
        job, _ = self._stored_single(request, path["queue"], options)
        return _result(job)

    def _stored_single(self, request: httpx.Request, queue: str, query: dict[str, str]) -> tuple[FakeJob, str]:
        attributes = {
            name.removeprefix("job-attr-"): value
            for name, value in request.headers.items()
            if name.startswith("job-attr-")
        }
        options: dict[str, Any] = dict(query)
        if "retry" in options:
            options["retry"] = decode(options["retry"])
        if "idempotency-key" in request.headers:
            options["idempotency_key"] = request.headers["idempotency-key"]
        content = Content(request.content, request.headers["content-type"])
        return self._stored(queue, content, attributes, options)

    @_route("POST", _QUEUE + "/jobs/batch")
    def _batch(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        results = []
        for item in decode(request.content)["jobs"]:
            try:
                content = _content(item, "payload")
                attributes = item.pop("attributes", {})
                job, outcome = self._stored(path["queue"], content, attributes, item)
                results.append(_published(job, outcome))
            except Refusal as refusal:
                results.append({"problem": refusal.problem})
        return _json({"results": results})

    def _stored(
        self, queue: str, content: Content, attributes: dict[str, str], options: dict[str, Any]
    ) -> tuple[FakeJob, str]:
        job, outcome = self._store.publish(queue, content, attributes, options)
        self._on_publish(FakeJob(job.id, queue, content, attributes, options, job.created_ms, job.run_ms, 0))
        return job, outcome

    @_route("GET", _JOB)
    def _show(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _json(_details(self._find(path, query)))

    @_route("DELETE", _JOB)
    def _cancel(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _json(self._store.cancel(self._find(path, query), query.get("running", "refuse")))

    @_route("PATCH", _JOB)
    def _change(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        job, change = self._waiting(path, query), decode(request.content)
        now = self._store.clock.ms
        if "delay" in change:
            job.wait_until(now + (ms_of(change["delay"]) or 0), now)
        if "run_at" in change:
            job.wait_until(change["run_at"], now)
        job.options.update({name: change[name] for name in ("priority", "start_within") if name in change})
        return _json({**_details(job), "outcome": "changed"})

    @_route("POST", _JOB + "/promote")
    def _promote(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        job = self._waiting(path, query)
        job.wait_until(self._store.clock.ms, self._store.clock.ms)
        return _json({**_details(job), "outcome": "promoted"})

    @_route("GET", _JOB + "/payload")
    def _payload(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        content = self._find(path, query).content
        return httpx.Response(200, content=content.body, headers=_type_of(content))

    @_route("GET", _JOB + "/result")
    def _get_result(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _result(self._find(path, query))

    @_route("GET", _QUEUE + "/jobs")
    def _list(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        jobs = self._store.jobs(path["queue"])
        items = [_details(job) for job in jobs if query.get("state") in (None, job.state)]
        return _json({"items": items, "next": None})

    @_route("GET", _QUEUE)
    def _queue(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        counts = dict.fromkeys(("delayed", "ready", "leased", "dead", "done"), 0)
        for job in self._store.jobs(path["queue"]):
            counts[job.state] += 1
        return _json({"queue": path["queue"], "jobs": counts, "paused": False, "closed": False})

    @_route("POST", _QUEUE + "/purge")
    def _purge(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        state = decode(request.content)["state"]
        return _json({"outcome": "purged", "deleted": self._store.purge(path["queue"], state)})

    @_route("POST", _QUEUE + "/respawn")
    def _respawn(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _json({"outcome": "respawned", "respawned": self._store.respawn(path["queue"])})

    @_route("POST", "/reserve")
    def _reserve(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        body = decode(request.content)
        settle = body.get("settle", {})
        settled = {"ack": self._acks(settle.get("ack", ())), "fail": self._fails(settle.get("fail", ()))}
        queues = [queue if isinstance(queue, str) else queue["name"] for queue in body["queues"]]
        jobs = self._store.reserve(queues, body.get("max_jobs", 1), ms_of(body.get("lease")))
        now = _instant(self._store.clock.ms)
        return _json({"now": now, "jobs": [_leased(job) for job in jobs], "settled": settled})

    @_route("POST", "/ack")
    def _ack(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _json({"results": self._acks(decode(request.content)["leases"])})

    @_route("POST", "/fail")
    def _fail(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        return _json({"results": self._fails(decode(request.content)["leases"])})

    @_route("POST", "/release")
    def _release(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        body = decode(request.content)
        delay = ms_of(body.get("delay")) or 0
        outcomes = [self._store.release(lease, delay) for lease in body["leases"]]
        return _json({"results": [{"outcome": outcome} for outcome in outcomes]})

    @_route("POST", "/touch")
    def _touch(self, request: httpx.Request, path: dict[str, str], query: dict[str, str]) -> httpx.Response:
        body = decode(request.content)
        touched = [self._store.touch(lease, ms_of(body.get("lease"))) for lease in body["leases"]]
        return _json({"results": [_touched(job) for job in touched]})

    def _acks(self, items: Any) -> list[dict[str, Any]]:
        outcomes = []
        for item in items:
            lease = item if isinstance(item, str) else item["lease"]
            has_result = isinstance(item, dict) and ("result" in item or "result_base64" in item)
            outcomes.append(self._store.ack(lease, _content(item, "result") if has_result else None))
        return [{"outcome": outcome} for outcome in outcomes]

    def _fails(self, items: Any) -> list[dict[str, Any]]:
        results = []
        for item in items:
            outcome, job = self._store.fail(
                item["lease"], item["error"], ms_of(item.get("retry_in")), item.get("dead", False)
            )
            results.append({"outcome": outcome} | ({"run_at": _instant(job.run_ms)} if job else {}))
        return results

    def _find(self, path: Mapping[str, str], query: Mapping[str, str]) -> FakeJob:
        job = path["job"]
        if job == "-":
            return self._store.find(path["queue"], None, query.get("key"))
        if job.startswith("key:"):
            return self._store.find(path["queue"], None, job.removeprefix("key:"))
        return self._store.find(path["queue"], job, None)

    def _waiting(self, path: Mapping[str, str], query: Mapping[str, str]) -> FakeJob:
        job = self._find(path, query)
        if job.state == "leased":
            raise Refusal(409, "job_running", "A worker holds the job.")
        if job.state == "dead":
            raise Refusal(409, "job_dead", "The job is in the dead letter.")
        return job


def _json(body: Any, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=encode(body), headers={"content-type": JSON})


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds")


def _type_of(content: Content) -> dict[str, str]:
    return {"content-type": content.content_type or ""}


def _content(item: dict[str, Any], name: str) -> Content:
    encoded = item.pop(f"{name}_base64", None)
    if encoded is not None:
        kind = item.pop("content_type", "application/octet-stream")
        return Content(base64.b64decode(encoded), kind)
    return Content(encode(item.pop(name, None)), item.pop("content_type", JSON))


def _published(job: FakeJob, outcome: str) -> dict[str, Any]:
    shown = {"id": job.id, "queue": job.queue, "outcome": outcome, "state": job.state}
    return _without_none({**shown, "key": job.key, "run_at": _instant(job.run_ms), "durability": "memory"})


def _details(job: FakeJob) -> dict[str, Any]:
    return _without_none(
        {
            "id": job.id,
            "queue": job.queue,
            "state": job.state,
            "key": job.key,
            "group": job.options.get("group"),
            "created_at": _instant(job.created_ms),
            "run_at": None if job.state in ("leased", "done") else _instant(job.run_ms),
            "lease_until": _instant(job.lease_until) if job.state == "leased" else None,
            "done_at": _instant(job.done_ms) if job.state == "done" else None,
            "attempt": job.attempt,
            "failures": job.failures,
            "losses": job.losses,
            "max_attempts": job.max_attempts,
            "content_type": job.content.content_type,
            "payload_bytes": len(job.content.body),
            "attributes": job.attributes or None,
            "reason": job.reason,
            "history": [{**entry, "ended_at": _instant(entry["ended_at"])} for entry in job.history],
        }
    )


def _leased(job: FakeJob) -> dict[str, Any]:
    content = job.content
    view = {
        "id": job.id,
        "queue": job.queue,
        "lease": job.lease,
        "lease_until": _instant(job.lease_until),
        "attempt": job.attempt,
        "failures": job.failures,
        "losses": job.losses,
        "run_at": _instant(job.run_ms),
        "created_at": _instant(job.created_ms),
        "key": job.key,
        "group": job.options.get("group"),
        "content_type": content.content_type,
        "attributes": job.attributes or None,
    }
    view = _without_none(view)
    if is_json(content.content_type or ""):
        view["payload"] = content.value
    else:
        view["payload_base64"] = base64.b64encode(content.body).decode()
    return view


def _touched(job: FakeJob | str) -> dict[str, Any]:
    if isinstance(job, str):
        return {"outcome": job}
    touched: dict[str, Any] = {"outcome": "extended", "lease_until": _instant(job.lease_until)}
    if job.cancel_requested:
        touched["cancel_requested"] = True
    return touched


def _result(job: FakeJob) -> httpx.Response:
    if job.state == "dead":
        return _json(Refusal(409, "job_dead", "The job is in the dead letter.").problem, 409)
    if job.state != "done":
        return _json({"id": job.id, "state": job.state}, 202)
    if job.result is None:
        return httpx.Response(204)
    return httpx.Response(200, content=job.result.body, headers=_type_of(job.result))


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
