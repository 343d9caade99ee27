# SPDX-License-Identifier: BSD-2-Clause
"""The familiar client's methods for queries, job filters and incidents of nodes."""

from typing import Any

from ganeti_client.familiar_sender import Job, Sender, given_ones


class Queries(Sender):
    """Asks with the query language; lists and changes filters; lists and ends incidents."""

    def Query(self, what: str, fields: list[str], qfilter: Any = None, reason: str | None = None) -> dict[str, Any]:
        body = given_ones(fields=fields, qfilter=qfilter)
        return dict(self._send("PUT", f"/2/query/{what}", {"reason": reason}, body))

    def QueryFields(self, what: str, fields: list[str] | None = None, reason: str | None = None) -> dict[str, Any]:
        chosen = ",".join(fields) if fields else None
        return dict(self._send("GET", f"/2/query/{what}/fields", {"fields": chosen, "reason": reason}))

    def GetFilters(self, bulk: bool = False) -> Any:
        return self._list("filters", "uuid", bulk)

    def GetFilter(self, filter_uuid: str) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/filters/{filter_uuid}"))

    def AddFilter(self, priority: int, predicates: list[Any], action: Any, reason_trail: Any = None) -> str:
        body = given_ones(priority=priority, predicates=predicates, action=action, reason=reason_trail)
        return str(self._send("POST", "/2/filters", None, body))

    def ReplaceFilter(
        self, uuid: str, priority: int, predicates: list[Any], action: Any, reason_trail: Any = None
    ) -> str:
        body = given_ones(priority=priority, predicates=predicates, action=action, reason=reason_trail)
        return str(self._send("PUT", f"/2/filters/{uuid}", None, body))

    def DeleteFilter(self, uuid: str) -> None:
        self._send("DELETE", f"/2/filters/{uuid}")

    def GetIncidents(self) -> Any:
        return self._send("GET", "/2/maintenance/incidents")

    def DeleteIncident(self, incident: str, reason: str | None = None) -> Job:
        return int(self._send("DELETE", f"/2/maintenance/incidents/{incident}", {"reason": reason}))
