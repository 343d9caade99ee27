# SPDX-License-Identifier: BSD-2-Clause
"""The blocking client: one kept connection, for one thread at a time."""

import http.client
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ganeti_client.errors import ApiError, ConnectionFailed, JobFailed
from ganeti_client.messages import (
    Event,
    EventReader,
    Request,
    events_request,
    list_request,
    login,
    read_answer,
    submission,
    tls,
)
from ganeti_client.operations import Operations

_WAIT_S = 30.0


class Client:
    """Asks one cluster; `close` it, or use it in a ``with`` statement."""

    def __init__(
        self,
        host: str,
        port: int = 5080,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        cafile: str | None = None,
        verify: bool = True,
        timeout_s: float = 120.0,
    ) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._tls = tls(verify, cafile)
        self._headers = login(user, password, token)
        self._connection: http.client.HTTPSConnection | None = None
        self.operations: Operations[int] = Operations(self._submit)
        self.plans: Operations[dict[str, Any]] = Operations(self._plan)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, request: Request) -> Any:
        """Give the answer's value. Raises `ApiError`, or `ConnectionFailed` where none came.

        What only reads is sent again if a kept connection has ended.
        """
        kept = self._connection is not None
        try:
            return self._exchange(request)
        except ConnectionFailed:
            if not (kept and request.only_reads):
                raise
        return self._exchange(request)

    def query(self, kind: str, fields: list[str] | None = None, chosen: Any = None) -> list[dict[str, Any]]:
        """Give objects of a kind, such as ``instances``, with these fields; *chosen* is a filter."""
        found: list[dict[str, Any]] = self.request(list_request(kind, fields, chosen))
        return found

    def show(self, kind: str, name: str | int) -> dict[str, Any]:
        found: dict[str, Any] = self.request(Request("GET", f"/3/{kind}/{name}"))
        return found

    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request(Request("GET", "/3/cluster"))
        return found

    def whoami(self) -> dict[str, Any]:
        """Give the name and the scopes of whoever asks."""
        found: dict[str, Any] = self.request(Request("GET", "/3/whoami"))
        return found

    def fields(self, kind: str) -> list[dict[str, Any]]:
        """Give the fields that `query` may be asked for."""
        found: list[dict[str, Any]] = self.request(Request("GET", f"/3/fields/{kind}"))
        return found

    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request(Request("GET", "/3"))
        return found

    def description(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        found: dict[str, Any] = self.request(Request("GET", "/3/openapi.json"))
        return found

    def metrics(self) -> str:
        """Give the page for Prometheus."""
        return str(self.request(Request("GET", "/metrics")))

    def wait(self, job: int, within_s: float | None = None) -> Any:
        """Wait for a job's end; gives the results of its operations. Raises `JobFailed`, `TimeoutError`."""
        end_s = None if within_s is None else time.monotonic() + within_s
        while True:
            left_s = _WAIT_S if end_s is None else max(0.0, min(_WAIT_S, end_s - time.monotonic()))
            told = self.request(Request("GET", f"/3/jobs/{job}/wait", query=(("timeout_s", f"{left_s:.3f}"),)))
            if told["ended"]:
                if told["status"] != "success":
                    raise JobFailed(job, told["status"], told["results"])
                return told["results"]
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"job {job} has not ended within {within_s:g} seconds")

    def cancel(self, job: int) -> None:
        self.request(Request("DELETE", f"/3/jobs/{job}"))

    def events(self, kinds: list[str] | None = None, position: str | None = None) -> Iterator[Event]:
        """Give events as they happen, on a connection of their own, until it ends; then continue by position."""
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=self._timeout_s)
        request = events_request(kinds, position)
        try:
            connection.request("GET", request.target, headers={**self._headers, **request.headers})
            response = connection.getresponse()
            if response.status >= 400:
                read_answer(response.status, response.read())
            reader = EventReader()
            for line in response:
                yield from reader.feed(line.decode().rstrip("\r\n"))
        except (OSError, http.client.HTTPException) as err:
            raise ConnectionFailed(f"the stream of events ended: {err}") from err
        finally:
            connection.close()

    def _submit(self, operation: str, parameters: dict[str, Any], idempotency_key: str | None, plan: str | None) -> int:
        return int(self.request(submission(operation, parameters, idempotency_key, plan))["job"])

    def _plan(
        self, operation: str, parameters: dict[str, Any], idempotency_key: str | None, plan: str | None
    ) -> dict[str, Any]:
        if idempotency_key is not None or plan is not None:
            raise ApiError("a plan takes neither an idempotency key nor a plan")
        found: dict[str, Any] = self.request(Request("POST", f"/3/plan/{operation}", parameters))
        return found

    def _exchange(self, request: Request) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, context=self._tls, timeout=self._timeout_s
            )
        try:
            headers = {**self._headers, **request.headers}
            self._connection.request(request.method, request.target, request.data, headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as err:
            self.close()
            raise ConnectionFailed(f"{self._host} port {self._port} does not answer: {err}") from err
        return read_answer(response.status, data)
