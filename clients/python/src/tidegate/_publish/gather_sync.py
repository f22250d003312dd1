"""Publishes of several threads that meet are sent together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .._http.sync_transport import SyncTransport
from ..answers import PublishedJob
from ..errors import ConnectionError, TidegateError
from .calls import BatchResult, batch_call, single_call
from .gather import BatchRun, Lane, Lanes, is_refused, lane_of
from .new_job import PreparedJob


class _Entry:
    """A publish of a thread."""

    __slots__ = ("batch", "job", "result", "turn")

    def __init__(self, job: PreparedJob) -> None:
        self.job = job
        self.turn = threading.Event()
        """Is set when there is a result, or this thread is to send a batch."""
        self.batch: list[_Entry] | None = None
        self.result: BatchResult | None = None


class SyncPublisher:
    """Sends publishes. The thread of the first publish of a batch sends it; no further thread is needed."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._lanes: Lanes[_Entry] = Lanes()

    def publish(self, queue: str, job: PreparedJob) -> PublishedJob:
        """Publishes a job, at once or together with others."""
        lane, entry = lane_of(queue, job), _Entry(job)
        with self._lock:
            is_first = self._lanes.enter(lane, entry)
        if is_first:
            entry.batch = [entry]
        else:
            self._wait(lane, entry)
        if entry.batch is not None:
            try:
                self._send(queue, entry.batch)
            finally:
                self._pass_on(lane)
        if isinstance(entry.result, PublishedJob):
            return entry.result
        raise entry.result or ConnectionError("the request was interrupted", applied="unknown")

    def _wait(self, lane: Lane, entry: _Entry) -> None:
        try:
            entry.turn.wait()
        except BaseException:
            # A signal has interrupted the thread: nobody may wait for it.
            with self._lock:
                self._lanes.leave(lane, entry)
                batch = entry.batch
            if batch is not None:
                _finish(batch, [ConnectionError("the request was interrupted")] * len(batch))
                self._pass_on(lane)
            raise

    def _pass_on(self, lane: Lane) -> None:
        """Lets the first thread that waits send the next batch."""
        with self._lock:
            batch = self._lanes.next_batch(lane)
            if batch:
                batch[0].batch = batch
                batch[0].turn.set()

    def _send(self, queue: str, batch: list[_Entry]) -> None:
        results: Sequence[BatchResult] = [ConnectionError("the request was interrupted", applied="unknown")] * len(
            batch
        )
        try:
            results = self._results(queue, [entry.job for entry in batch])
        finally:
            _finish(batch, results)

    def _results(self, queue: str, jobs: list[PreparedJob]) -> list[BatchResult]:
        if len(jobs) == 1:
            return [_caught(lambda: self._transport.send(single_call(queue, jobs[0])))]
        run = BatchRun(jobs, self._transport.settings.limits)
        while True:
            try:
                delay = run.take(self._transport.send(batch_call(queue, run.jobs)))
            except TidegateError as error:
                if not is_refused(error):
                    return run.failed(error)
                return run.ended([self._results(queue, [job])[0] for job in run.jobs])
            if delay is None:
                return run.ended()
            self._transport.sleep(delay)


def _finish(batch: list[_Entry], results: Sequence[BatchResult]) -> None:
    for entry, result in zip(batch, results, strict=True):
        entry.result = result
        entry.turn.set()


def _caught(send: Callable[[], PublishedJob]) -> BatchResult:
    try:
        return send()
    except TidegateError as error:
        return error
