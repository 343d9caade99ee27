# SPDX-License-Identifier: BSD-2-Clause
"""Requests and answers as values: no socket is touched here, so that both clients share it."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from ganeti_client.errors import ApiError


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    @property
    def data(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"


@dataclass(frozen=True)
class Event:
    """Something that happened; give *position* to `events` to continue after it. The first is of the kind ``begin``."""

    position: str
    kind: str
    data: Any


def login(user: str | None, password: str | None, token: str | None) -> dict[str, str]:
    """The headers that say who asks."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    elif user is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()
    return headers


def tls(verify: bool, cafile: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cafile)
    if cafile is not None:
        context.check_hostname = False  # the certificate is the cluster's own, whatever name it has
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_answer(status: int, data: bytes) -> Any:
    """Give the value; raises `ApiError` with the server's sentence for a status that is no success."""
    try:
        value = json.loads(data) if data.strip() else None
    except ValueError:
        value = data.decode(errors="replace")
    if status >= 400:
        told = value if isinstance(value, dict) else {}
        raise ApiError(str(told.get("detail") or told.get("message") or value), status)
    return value


class EventReader:
    """Turns lines of server-sent events into `Event`s."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Iterator[Event]:
        if line:
            name, _, value = line.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return
        fields, self._fields = self._fields, {}
        if "event" in fields:
            yield Event(fields.get("id", ""), fields["event"], json.loads(fields.get("data", "null")))


def list_request(kind: str, fields: list[str] | None, chosen: Any) -> Request:
    query = [("fields", ",".join(fields))] if fields else []
    if chosen is not None:
        query.append(("filter", json.dumps(chosen)))
    return Request("GET", f"/3/{kind}", query=tuple(query))


def events_request(kinds: list[str] | None, position: str | None) -> Request:
    query = (("kinds", ",".join(kinds)),) if kinds else ()
    return Request("GET", "/3/events", query=query, headers={"Last-Event-ID": position} if position else {})


def submission(operation: str, parameters: Mapping[str, Any], idempotency_key: str | None, plan: str | None) -> Request:
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
    query = (("plan", plan),) if plan is not None else ()
    return Request("POST", f"/3/operations/{operation}", dict(parameters), query, headers)
