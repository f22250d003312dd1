"""Handlers: from a function with its own arguments to a coroutine function of a job."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .ends import Dead
from .job import Job
from .threads import HandlerThreads

Handler = Callable[..., Any]
"""A function with a parameter for the payload, a parameter for the `Job`, or both."""
JobRunner = Callable[[Job], Coroutine[Any, Any, Any]]
"""Runs the handler of a job."""
Middleware = Callable[[Job, JobRunner], Awaitable[Any]]
"""Runs the next function with the job, and may do something before and after."""

_Argument = Callable[[Job], Any]


def runner_of(handler: Handler, threads: HandlerThreads) -> JobRunner:
    """The handler as a coroutine function of a job. A plain function runs in a thread.

    Raises:
        TypeError: The parameters of the function are no parameters of a handler.
    """
    arguments = _arguments(handler)
    if _is_async(handler):
        if arguments == [_the_job]:
            return handler

        async def run(job: Job) -> Any:
            return await handler(*[argument(job) for argument in arguments])

        return run

    async def run_in_thread(job: Job) -> Any:
        values = [argument(job) for argument in arguments]
        value = await _uncancelled(threads.run(functools.partial(handler, *values)), job)
        # A plain function around a coroutine function, as many decorators make it.
        return await value if inspect.isawaitable(value) else value

    return run_in_thread


def wrapped(runner: JobRunner, middleware: list[Middleware]) -> JobRunner:
    """The runner inside of all middleware; the first one is outside."""
    for layer in reversed(middleware):
        runner = functools.partial(_through, layer, runner)
    return runner


async def _through(layer: Middleware, following: JobRunner, job: Job) -> Any:
    return await layer(job, following)


async def _uncancelled(running: asyncio.Future[Any], job: Job) -> Any:
    """Waits for a thread. It cannot be stopped, so a handler that was aborted is waited for, too."""
    while True:
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if running.cancelled() or not job.is_aborted:
                raise
            if sys.version_info >= (3, 11):
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004
    )


def _arguments(handler: Handler) -> list[_Argument]:
    parameters = [
        parameter
        for parameter in inspect.signature(handler).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    hints = _hints(handler)
    arguments = [_argument(it.name, hints.get(it.name, Any)) for it in parameters]
    jobs = arguments.count(_the_job)
    if not arguments or jobs > 1 or len(arguments) - jobs > 1:
        name = getattr(handler, "__name__", repr(handler))
        raise TypeError(
            f"the handler {name} needs a parameter for the payload, a parameter for the job (of the "
            "type `Job`, or named `job`), or both"
        )
    return arguments


def _hints(handler: Handler) -> dict[str, Any]:
    function = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    try:
        return typing.get_type_hints(function)
    except NameError:
        # Names that exist for type checkers only.
        return {}


def _argument(name: str, hint: Any) -> _Argument:
    if hint is Job or (hint is Any and name == "job"):
        return _the_job
    if isinstance(hint, type) and callable(getattr(hint, "model_validate", None)):
        return functools.partial(_validated, hint)
    return _the_payload


def _the_job(job: Job) -> Job:
    return job


def _the_payload(job: Job) -> Any:
    return job.payload


def _validated(model: Any, job: Job) -> Any:
    """The payload as a model of pydantic. A payload that is none stays so: no attempt can succeed."""
    try:
        if isinstance(job.payload, bytes):
            return model.model_validate_json(job.payload)
        return model.model_validate(job.payload)
    except ValueError as error:
        raise Dead(f"the payload is no {model.__name__}: {error}") from error
