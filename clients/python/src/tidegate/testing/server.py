"""A real server for tests."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

import httpx

from ..async_client import AsyncClient
from ..client import Client

if TYPE_CHECKING:
    from typing_extensions import Self

_STOP_SECONDS = 10.0
_LOG_LINES_SHOWN = 15
_SCOPES = ("publish", "consume", "read", "admin")


class StartError(Exception):
    """There is no server for the test: the reason, and the remedy."""


class Server:
    """A real server: `tidegate dev` with a private Redis, on free ports. Its data is deleted at its end.

    The program `tidegate` is the argument, or the variable `TIDEGATE_PROGRAM`, or is found on `PATH`. It starts
    `redis-server` or `valkey-server` from `PATH`, or the program that `TG_REDIS_SERVER` names.

    Args:
        program: The path of `tidegate`.
        arguments: Further arguments of `tidegate dev`.
        ready_within: How long the server may take to start.

    Raises:
        StartError: The program is missing, or does not start.
    """

    def __init__(
        self,
        program: str | os.PathLike[str] | None = None,
        *,
        arguments: Sequence[str] = (),
        ready_within: timedelta = timedelta(seconds=30),
    ) -> None:
        port, admin_port = _free_ports()
        command = [_found(program), "dev", "--json", "--port", port, "--admin-port", admin_port]
        # The variables of the daemons are settings; variables of the test are not meant for them.
        kept = {n: value for n, value in os.environ.items() if not n.startswith("TIDEGATE_")}
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=kept,
        )
        self._log = _Log(self._process.stderr)
        try:
            summary = self._summary(ready_within.total_seconds())
        except BaseException:
            self.stop()
            raise
        self.url: str = summary["url"]
        """The URL for `Client`."""
        self.admin_url: str = summary["admin_url"]
        """The URL of the admin port."""
        self.key: str = summary["key"]
        """An API key with all scopes."""
        self.namespace: str = summary["namespace"]
        """The namespace of the API key."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self, namespace: str | None = None) -> Client:
        """A client of a namespace. Give each test its own namespace: it gets a new API key."""
        name, key = self._credentials(namespace)
        return Client(self.url, key=key, namespace=name)

    def async_client(self, namespace: str | None = None) -> AsyncClient:
        """A client of a namespace for asyncio."""
        name, key = self._credentials(namespace)
        return AsyncClient(self.url, key=key, namespace=name)

    def new_key(self, namespace: str, scopes: Sequence[str] = _SCOPES) -> str:
        """A new API key for a namespace."""
        response = httpx.post(
            f"{self.admin_url}/v1/{namespace}/keys",
            json={"scopes": list(scopes), "description": "tests"},
            timeout=_STOP_SECONDS,
        )
        response.raise_for_status()
        return str(response.json()["secret"])

    def stop(self) -> None:
        """Stops the server, within about 10 s."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.end()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _credentials(self, namespace: str | None) -> tuple[str, str]:
        if namespace is None:
            return self.namespace, self.key
        return namespace, self.new_key(namespace)

    def _summary(self, seconds: float) -> dict[str, str]:
        lines: queue.Queue[bytes] = queue.Queue()
        output = self._process.stdout
        assert output is not None
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            raise StartError(f"tidegate dev did not start within {seconds:g} s") from None
        if not line:
            status = self._process.wait(_STOP_SECONDS)
            raise StartError(f"tidegate dev has ended with status {status}:\n{self._log.end()}")
        summary: dict[str, str] = json.loads(line)
        return summary


class _Log:
    """Reads the log of a process, so that it never blocks, and keeps its end."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def end(self) -> str:
        """The last lines of a process that has ended."""
        self._thread.join(1.0)
        return "\n".join(self._lines)

    def _read(self) -> None:
        try:
            for line in self._stream:
                self._lines.append(line.decode("utf-8", "replace").rstrip())
                del self._lines[:-_LOG_LINES_SHOWN]
        except ValueError:
            # The stream was closed.
            return


def _found(program: str | os.PathLike[str] | None) -> str:
    chosen = program or os.environ.get("TIDEGATE_PROGRAM")
    if chosen is not None:
        if not Path(chosen).is_file():
            raise StartError(f"no tidegate: {chosen} is not a file")
        return str(chosen)
    found = shutil.which("tidegate")
    if found is None:
        text = "no tidegate: it is not on PATH; install it, or set TIDEGATE_PROGRAM to its path"
        raise StartError(text)
    return found


def _free_ports() -> tuple[str, str]:
    """Two ports of this machine that no process uses now."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1]), str(other.getsockname()[1])
