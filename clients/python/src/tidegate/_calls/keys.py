"""Requests about API keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .._http.call import Answer, Call, json_call, segment
from .._values import instant_ms
from ..answers import ApiKey, CreatedKey
from .pages import Pages


def create(scopes: Sequence[str], description: str, expires_at: datetime | None) -> Call[CreatedKey]:
    """Creates an API key. A repetition would create another one."""
    body: dict[str, Any] = {"scopes": list(scopes), "description": description}
    if expires_at is not None:
        body["expires_at"] = instant_ms("expires_at", expires_at)
    return json_call("POST", "/keys", body, lambda answer: CreatedKey.of(answer.json()), safe=False)


def list_keys(page_size: int | None) -> Pages[ApiKey]:
    """Lists the API keys of the namespace."""
    return Pages("/keys", ApiKey.of, page_size)


def revoke(id: str) -> Call[dict[str, Any]]:
    """Revokes an API key."""
    return Call("DELETE", f"/keys/{segment('id', id)}", Answer.json)
