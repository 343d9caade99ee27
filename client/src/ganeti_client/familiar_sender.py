# SPDX-License-Identifier: BSD-2-Clause
"""How the familiar client sends a request of `/2`."""

from typing import Any

from ganeti_client.messages import Request
from ganeti_client.synchronous import Client

Job = int


class Sender:
    """What all parts of the familiar client share."""

    _client: Client

    def _send(self, method: str, path: str, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        pairs: list[tuple[str, str]] = []
        for name, value in (query or {}).items():
            if value is None or value is False:
                continue
            values = value if isinstance(value, list | tuple) else [int(value) if value is True else value]
            pairs += [(name, str(each)) for each in values]
        return self._client.request(Request(method, path, body, tuple(pairs)))

    def _list(self, kind: str, key: str, bulk: bool, reason: str | None = None) -> Any:
        rows = self._send("GET", f"/2/{kind}", {"bulk": bulk, "reason": reason})
        return rows if bulk else [row[key] for row in rows]


def given_ones(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
