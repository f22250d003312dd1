"""A request to the server, and its answer, independent of how they are sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .._json import JSON, decode, encode
from ..errors import InvalidRequestError, ServerError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Headers = tuple[tuple[bytes, bytes], ...]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_JSON_HEADER = (b"content-type", JSON.encode())
_SHOWN_BYTES = 200


@dataclass(frozen=True)
class Answer:
    """A success."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return decode(self.body)
        except ValueError as error:
            text = f"the answer is not JSON: {self.body[:_SHOWN_BYTES]!r}"
            raise ServerError(text, status=self.status, applied="unknown") from error


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """A request, and how its answer is read. The path follows the namespace."""

    method: str
    path: str
    read: Callable[[Answer], T_co]
    headers: Headers = ()
    body: bytes = b""
    wait: float = 0.0
    """How long the server may wait before it answers, in seconds."""
    safe: bool = True
    """Whether a repetition changes nothing that the request has changed already."""
    give_up_after: float | None = None
    """When no further repetition is begun, in seconds. By default the number of repetitions is the limit."""


def read_answer(call: Call[T], answer: Answer) -> T:
    """What a success says.

    Raises:
        ServerError: The answer has not the form that the API says: probably it is of a proxy.
    """
    try:
        return call.read(answer)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        text = f"the answer cannot be read: {error!r}: {answer.body[:_SHOWN_BYTES]!r}"
        raise ServerError(text, status=answer.status, applied="unknown") from error


def json_call(
    method: str,
    path: str,
    body: object,
    read: Callable[[Answer], T],
    *,
    headers: Headers = (),
    safe: bool = True,
    wait: float = 0.0,
) -> Call[T]:
    """A request with a body of JSON."""
    encoded = encode(body, "the body")
    return Call(method, path, read, (_JSON_HEADER, *headers), encoded, wait=wait, safe=safe)


def raw_json_call(
    path: str, body: bytes, read: Callable[[Answer], T], *, safe: bool = True, wait: float = 0.0
) -> Call[T]:
    """A POST whose body is JSON already."""
    return Call("POST", path, read, (_JSON_HEADER,), body, wait=wait, safe=safe)


def encoded(text: str) -> str:
    """A text for a path or a query, percent-encoded."""
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{text!r} is not valid Unicode") from error


def segment(what: str, text: str) -> str:
    """A name as a segment of a path, percent-encoded."""
    if not isinstance(text, str) or not text:
        raise InvalidRequestError(f"the {what} is not a text, or is empty: {text!r}", field=what)
    return encoded(text)


def with_query(path: str, parameters: Iterable[tuple[str, object]]) -> str:
    """A path with parameters. Parameters that are `None` are left out."""
    pairs = [f"{name}={encoded(str(value))}" for name, value in parameters if value is not None]
    if not pairs:
        return path
    return f"{path}{'&' if '?' in path else '?'}{'&'.join(pairs)}"


def header(what: str, name: str, value: str) -> tuple[bytes, bytes]:
    """A header. The server reads headers as UTF-8."""
    if value != value.strip(" \t") or _CONTROL.search(value):
        text = f"{what} has spaces at its ends, or characters that no header may have: {value!r}"
        raise InvalidRequestError(text, field=what)
    try:
        return name.encode(), value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{what} is not valid Unicode: {value!r}", field=what) from error
