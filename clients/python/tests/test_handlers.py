"""Handlers: their parameters, the values that they return, threads and middleware."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tidegate import Dead, InvalidRequestError, Job, JobAborted, Result, RetryIn, Snooze, Worker
from tidegate.worker.handlers import runner_of
from tidegate.worker.outcome import RunEnd, end_of
from tidegate.worker.threads import HandlerThreads

LEASE = "J1.1.q"


def job(payload: Any = None, **fields: Any) -> Job:
    raw = {"id": "J1", "queue": "q", "lease": LEASE, "attempt": 1, "content_type": "application/json"}
    return Job({**raw, "payload": payload, **fields})


async def ended(handler: Callable[..., Any], of: Job | None = None, *, abort: str | None = None) -> RunEnd:
    """Runs a handler; aborts it a moment later."""
    of = job() if of is None else of
    task = asyncio.get_running_loop().create_task(runner_of(handler, HandlerThreads())(of))
    if abort is not None:
        await asyncio.sleep(0.02)
        of._abort(abort)  # type: ignore[arg-type]
        task.cancel()
    await asyncio.wait([task], timeout=10)
    return end_of(task, of, 1.5)


def end(handler: Callable[..., Any], of: Job | None = None, *, abort: str | None = None) -> RunEnd:
    return asyncio.run(ended(handler, of, abort=abort))


def test_a_handler_has_the_payload_or_the_job_or_both() -> None:
    async def payload_only(payload: dict[str, int]) -> Any:
        return payload

    async def typed_job(it: Job) -> Any:
        return it.id

    async def named_job(job):  # type: ignore[no-untyped-def]
        return job.id

    def both(job: Job, order: Any, unused: int = 3) -> Any:
        return [job.id, order]

    class Callable_:  # noqa: N801
        async def __call__(self, payload: Any) -> Any:
            return payload

    for handler, result in (
        (payload_only, {"a": 1}),
        (typed_job, "J1"),
        (named_job, "J1"),
        (both, ["J1", {"a": 1}]),
        (Callable_(), {"a": 1}),
    ):
        assert json.loads(end(handler, job({"a": 1})).item)["result"] == result


def test_other_parameters_are_refused() -> None:
    for handler in (lambda: None, lambda a, b: None, lambda a, b, job: None):
        with pytest.raises(TypeError, match="needs a parameter"):
            Worker().add("q", handler)


def test_a_payload_is_a_model_of_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", order=int)

    async def handler(payload):  # type: ignore[no-untyped-def]
        return payload.order

    handler.__annotations__["payload"] = model
    assert json.loads(end(handler, job({"order": 17})).item)["result"] == 17
    failed = end(handler, job({"order": "x"}))
    assert failed.is_dead
    assert failed.error is not None
    assert "the payload is no Order" in failed.error


def returning(value: Any) -> Callable[..., Any]:
    async def handler(job: Job) -> Any:
        return value

    return handler


def raising(error: BaseException) -> Callable[..., Any]:
    async def handler(job: Job) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "kind", "item"),
    [
        (returning(None), "ack", LEASE),
        (returning(0), "ack", {"result": 0}),
        (returning({"n": 9007199254740993}), "ack", {"result": {"n": 9007199254740993}}),
        (returning(b"\x00"), "ack", {"result_base64": "AA=="}),
        (returning(Result(b"\x00", "image/png")), "ack", {"result_base64": "AA==", "content_type": "image/png"}),
        (raising(ValueError("why")), "fail", {"error": "why"}),
        (raising(KeyError("name")), "fail", {"error": "KeyError('name')"}),
        (raising(ValueError()), "fail", {"error": "ValueError()"}),
        (raising(ValueError("\ud800")), "fail", {"error": "?"}),
        (raising(RetryIn("later", timedelta(seconds=30))), "fail", {"error": "later", "retry_in": "30000ms"}),
        (returning(RetryIn(ValueError("x"), timedelta(0))), "fail", {"error": "x", "retry_in": "0ms"}),
        (raising(Dead("no")), "fail", {"error": "no", "dead": True}),
        (returning(Dead("no")), "fail", {"error": "no", "dead": True}),
        (raising(Snooze(timedelta(minutes=1))), "release", LEASE),
        (raising(asyncio.CancelledError()), "fail", {"error": "the handler was cancelled"}),
    ],
)
def test_ends(handler: Callable[..., Any], kind: str, item: Any) -> None:
    got = end(handler)
    assert got.kind == kind
    assert json.loads(got.item) == ({"lease": LEASE, **item} if isinstance(item, dict) else item)
    if kind == "release":
        assert got.delay == "60000ms"


def test_a_result_that_is_no_json_makes_the_job_dead() -> None:
    got = end(returning({1, 2}))
    assert got.is_dead
    assert got.error is not None
    assert "result cannot be written" in got.error


async def sleeps(job: Job) -> None:
    await asyncio.sleep(10)


def polls(job: Job) -> None:
    while not job.wait_for_abort(0.01):
        pass
    job.raise_if_aborted()


@pytest.mark.parametrize("handler", [sleeps, polls])
def test_ends_of_handlers_that_were_aborted(handler: Callable[..., Any]) -> None:
    assert end(handler, abort="stopping") == RunEnd(LEASE, "release", b'"J1.1.q"')
    assert end(handler, abort="cancel_requested").kind == "release"
    too_long = end(handler, abort="max_run")
    assert (too_long.kind, too_long.error) == ("fail", "the handler did not end within 1.5 s")


def test_an_error_that_comes_of_a_stop_is_no_failure() -> None:
    def handler(job: Job) -> None:
        assert job.wait_for_abort(5)
        raise OSError("interrupted")

    assert end(handler, abort="stopping").kind == "release"
    assert end(handler, abort="max_run").kind == "fail"


def test_a_thread_that_raises_a_cancel_of_its_own_has_failed() -> None:
    def handler(job: Job) -> None:
        assert job.wait_for_abort(5)
        raise asyncio.CancelledError

    assert end(handler, abort="cancel_requested").kind == "fail"


def test_a_plain_function_may_return_a_coroutine() -> None:
    async def inner(job: Job) -> str:
        return job.id

    assert json.loads(end(lambda job: inner(job)).item)["result"] == "J1"


def test_a_handler_in_a_thread_may_finish_after_its_abort() -> None:
    def handler(job: Job) -> str:
        assert job.wait_for_abort(5)
        return "done all the same"

    assert json.loads(end(handler, abort="cancel_requested").item)["result"] == "done all the same"


def test_a_job_that_is_not_aborted() -> None:
    it = job()
    it.raise_if_aborted()
    assert not it.wait_for_abort(0)
    it._abort("lease_lost")
    assert it.is_aborted
    assert not it._abort("stopping")
    assert it.abort_reason == "lease_lost"
    with pytest.raises(JobAborted, match="lease_lost"):
        it.raise_if_aborted()


def test_threads_are_used_again_and_have_the_context_of_the_caller() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def run() -> None:
        threads = HandlerThreads()
        names = {await threads.run(lambda: threading.current_thread().ident) for _ in range(20)}
        assert len(names) == 1
        variable.set(5)
        assert await threads.run(variable.get) == 5
        together = threading.Barrier(8, timeout=10)
        await asyncio.gather(*(threads.run(together.wait) for _ in range(8)))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda: next(iter(())))

    asyncio.run(run())


def test_a_worker_that_is_not_valid() -> None:
    with pytest.raises(InvalidRequestError):
        Worker(slots=0)
    worker = Worker()
    with pytest.raises(InvalidRequestError, match="no handler"):
        worker.run()
    worker.add("q", returning(None))
    with pytest.raises(InvalidRequestError, match="two handlers"):
        worker.add("q", returning(None))
    for number in range(15):
        worker.add(f"q{number}", returning(None))
    with pytest.raises(InvalidRequestError, match="16 queues"):
        worker.add("one-more", returning(None))
