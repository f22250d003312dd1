"""The requests that report the ends of jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from .._calls.leases import outcomes, settle_call
from .._http.async_transport import AsyncTransport
from .._http.call import Call, raw_json_call
from .._http.repeat import RETRY_AFTER_MAX, delays
from .._json import encode
from ..answers import Outcome
from ..errors import TidegateError
from .events import Hooks, LeasesLost, ReportFailed, log
from .outcome import failed

if TYPE_CHECKING:
    from .reports import Ended

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0
_BODY_REFUSED = frozenset((400, 413, 415, 422))
# A worker whose key is refused ends.
_NOT_REPEATED = _BODY_REFUSED | {401, 403}


class ReportCalls:
    """Sends the ends of jobs. Each request is repeated until the leases of its jobs have expired."""

    def __init__(self, transport: AsyncTransport, hooks: Hooks) -> None:
        self._transport = transport
        self._hooks = hooks

    async def send(self, acks: Sequence[Ended], fails: Sequence[Ended], releases: Sequence[Ended]) -> None:
        """Reports ends of all kinds at the same time."""
        by_delay = sorted(releases, key=lambda ended: ended.end.delay or "")
        await asyncio.gather(
            self._ack(acks),
            self._fail(fails),
            *(self._release(list(same), delay) for delay, same in groupby(by_delay, key=lambda ended: ended.end.delay)),
        )

    def report_lost(self, name: str, jobs: int) -> None:
        """So many leases had expired before their ends were reported."""
        if jobs:
            log.warning("leases expired before %s: jobs=%d; these jobs run again", name, jobs)
            self._hooks.emit(LeasesLost(jobs))

    async def _ack(self, acks: Sequence[Ended]) -> None:
        error = await self._settle("ack", acks)
        if error is None:
            return
        if len(acks) > 1:
            # One result that is not accepted must not keep the others from being reported.
            for ended in acks:
                await self._ack([ended])
            return
        text = f"the work is done, but the result was not accepted: {error.detail}"
        ended = acks[0]
        ended.end = failed(ended.end.lease, text, is_dead=True)
        await self._fail([ended])

    async def _fail(self, fails: Sequence[Ended]) -> None:
        error = await self._settle("fail", fails)
        if error is None:
            return
        if len(fails) > 1:
            for ended in fails:
                await self._fail([ended])
            return
        self._hooks.emit(ReportFailed(error, 1))

    async def _release(self, releases: Sequence[Ended], delay: str | None) -> None:
        error = await self._settle("release", releases, delay)
        if error is not None:
            self._hooks.emit(ReportFailed(error, len(releases)))

    async def _settle(self, name: str, ended: Sequence[Ended], delay: str | None = None) -> TidegateError | None:
        """Reports ends; returns why the server refuses the body of the request. Other errors are logged."""
        if not ended:
            return None
        request = report_call(name, [one.end.item for one in ended], delay)
        try:
            answers = await self._repeated(request, ended)
        except TidegateError as error:
            log.error("failed to report jobs: request=%s jobs=%d error=%s", name, len(ended), error)
            if error.status in _BODY_REFUSED:
                return error
            self._hooks.emit(ReportFailed(error, len(ended)))
            return None
        pairs = zip(ended, answers, strict=False)
        self.report_lost(name, sum(answer.outcome == "lost" and not one.is_maybe_reported for one, answer in pairs))
        return None

    async def _repeated(self, request: Call[list[Outcome]], ended: Sequence[Ended]) -> list[Outcome]:
        until = max(one.expires for one in ended)
        pauses = delays(_FIRST_DELAY, _LONGEST_DELAY)
        while True:
            try:
                return await self._transport.send_once(request)
            except TidegateError as error:
                left = until - time.monotonic()
                if error.status in _NOT_REPEATED or left <= 0:
                    raise
                for one in ended:
                    one.is_maybe_reported = one.is_maybe_reported or error.applied != "no"
                pause = next(pauses)
                if error.retry_after is not None:
                    after = min(error.retry_after, RETRY_AFTER_MAX)
                    pause = max(pause, after.total_seconds())
            await asyncio.sleep(min(pause, left))


def report_call(name: str, items: Sequence[bytes], delay: str | None) -> Call[list[Outcome]]:
    """The request that reports ends of one kind."""
    if delay is None:
        return settle_call(name, items)
    head, tail = b'{"leases":[' + b",".join(items), b'],"delay":' + encode(delay) + b"}"
    return raw_json_call(f"/{name}", head + tail, outcomes)
