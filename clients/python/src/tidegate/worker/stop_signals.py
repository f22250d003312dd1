"""Stops a worker on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .events import log

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` at the first signal. A second one ends the process at once.

    Signals are handled in the main thread only; in other threads nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        log.info("the worker does not run in the main thread: it handles no signals")
        yield
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}

    def on_signal(number: signal.Signals) -> None:
        log.info("%s: the worker stops; a second signal ends it at once", number.name)
        for each in _SIGNALS:
            _remove(loop, each)
            signal.signal(each, signal.SIG_DFL)
        stop()

    for number in _SIGNALS:
        _add(loop, number, on_signal)
    try:
        yield
    finally:
        for number, handler in previous.items():
            _remove(loop, number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _add(
    loop: asyncio.AbstractEventLoop,
    number: signal.Signals,
    on_signal: Callable[[signal.Signals], None],
) -> None:
    try:
        loop.add_signal_handler(number, on_signal, number)
    except NotImplementedError:
        # Windows: the handler runs between two instructions of the main thread.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal, number))


def _remove(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    with suppress(NotImplementedError):
        loop.remove_signal_handler(number)
