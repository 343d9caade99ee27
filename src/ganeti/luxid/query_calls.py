# SPDX-License-Identifier: BSD-2-Clause
"""LUXI calls that only ask, or concern no job (protocols, section 2)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.serving import Handler
from ganeti.luxid.arguments import at_most, strings
from ganeti.luxid.queries.sources import QuerySources
from ganeti.master.query.cluster import ClusterRow, cluster_info, config_values
from ganeti.master.query.exports import export_rows
from ganeti.master.query.fields import Field, QueryWorld, Resource
from ganeti.master.query.filters import asked_names
from ganeti.master.query.running import describe_fields, legacy_rows, names_filter, present, run_query, selected
from ganeti.stores.watcher_switch import watcher_pause
from ganeti.wire.framing import Pieces

_TAGGED = {"node": "find_node", "instance": "find_instance", "nodegroup": "find_group", "network": "find_network"}


class QueryCalls:
    """Handlers of the argument lists of LUXI requests."""

    def __init__(self, paths: Paths, sources: QuerySources) -> None:
        self._paths = paths
        self._sources = sources

    def table(self) -> dict[str, Handler]:
        return {
            "Query": self.query,
            "QueryFields": self.query_fields,
            **{each.plain_call: self._plain(each) for each in self._sources.resources if each.plain_call},
            "QueryFilters": self.query_filters,
            "QueryJobs": self.query_jobs,
            "QueryExports": self.query_exports,
            "QueryConfigValues": self.query_config_values,
            "QueryClusterInfo": self.query_cluster_info,
            "QueryTags": self.query_tags,
        }

    async def query(self, args: list[Any]) -> dict[str, Any] | Pieces:
        """What, fields, filter; ours is a fourth argument that clients of 3.1 do not have: ``{"cache": "off"}``."""
        what, names, qfilter, how = (*at_most(args, 3, 4), None)[:4]
        cached = _may_be_cached(how)
        if what == "job" and asked_names(qfilter, "id") is None:
            return _described(*await self._sources.job_list(strings(names, "fields"), qfilter))
        resource = self._sources.resource(what)
        if (found := await self._sources.long_list(resource, strings(names, "fields"), qfilter)) is not None:
            return _described(*found)
        fields, data = await self._run(resource, strings(names, "fields"), qfilter, cached=cached)
        return {"fields": [field.describe() for field in fields], "data": data}

    async def query_fields(self, args: list[Any]) -> dict[str, Any]:
        what, names = (*at_most(args, 1, 2), None)[:2]
        return describe_fields(self._sources.resource(what), strings(names or [], "fields"))

    async def query_jobs(self, args: list[Any]) -> Pieces:
        """Rows of plain values; a job that does not exist has its id and nothing else."""
        ids, names = at_most(args, 2, 2)
        if ids is not None and not isinstance(ids, list):
            raise PrerequisiteError("QueryJobs takes a list of job ids, or null for all", WRONG_INPUT)
        return await self._sources.plain_job_list(ids or None, strings(names, "fields"))

    async def query_filters(self, args: list[Any]) -> list[list[Any]]:
        uuids, names = at_most(args, 2, 2)
        resource = self._sources.resource("filter")
        return await self._plain_rows(resource, names, strings(uuids or [], "uuids"))

    async def query_exports(self, args: list[Any]) -> list[Any]:
        names, lock = at_most(args, 2, 2)
        _refuse_lock(lock)
        rows = await export_rows(self._sources.view, self._sources.asker, strings(names, "nodes"))
        return [[row.node, row.export] for row in rows]

    async def query_config_values(self, args: list[Any]) -> list[Any]:
        (names,) = at_most(args, 1, 1)
        return config_values(self._cluster_row(), strings(names, "fields"))

    async def query_cluster_info(self, args: list[Any]) -> dict[str, Any]:
        at_most(args, 0, 0)
        return cluster_info(self._sources.view, self._sources.catalogue)

    async def query_tags(self, args: list[Any]) -> list[str]:
        kind, name = (*at_most(args, 1, 2), "")[:2]
        view = self._sources.view
        if kind == "cluster":
            return sorted(view.cluster.tags)
        find = _TAGGED.get(kind) if isinstance(kind, str) else None
        if find is None:
            known = ", ".join(["cluster", *_TAGGED])
            raise PrerequisiteError(f"'{kind}' is not a kind of object with tags: use {known}", WRONG_INPUT)
        if not isinstance(name, str) or not name:
            raise PrerequisiteError(f"Name the {kind} whose tags are wanted", UNKNOWN_ENTITY)
        return sorted(getattr(view, find)(name).tags)

    def _plain(self, resource: Resource) -> Handler:
        """A call from before the query language: names, fields, lock → rows of plain values."""

        async def handle(args: list[Any]) -> list[list[Any]]:
            names, fields, lock = (*at_most(args, 2, 3), False)[:3]
            _refuse_lock(lock)
            return await self._plain_rows(resource, fields, strings(names or [], "names"))

        return handle

    async def _plain_rows(self, resource: Resource, fields: Any, names: Sequence[Any]) -> list[list[Any]]:
        asked = strings(fields, "fields")
        legacy_rows(resource, selected(resource, asked), [])
        if names:
            names = present(resource, await self._sources.rows(resource, None), names)
            if not names:
                return []
        found, data = await self._run(resource, asked, names_filter(resource, names))
        return legacy_rows(resource, found, data)

    async def _run(self, resource: Resource, names: Sequence[str], qfilter: Any, *, cached: bool = True) -> Any:
        rows = await self._sources.rows(resource, qfilter, names)
        return await run_query(resource, rows, names, qfilter, self._sources.collector(cached=cached))

    def _cluster_row(self) -> ClusterRow:
        world = QueryWorld(self._sources.view, self._sources.catalogue)
        return ClusterRow(world, self._sources.drained, watcher_pause(self._paths))


def _described(fields: list[Field], rows: Pieces) -> Pieces:
    described = msgspec.json.encode([field.describe() for field in fields])
    return rows.within(b'{"fields":%s,"data":' % described, b"}")


def _may_be_cached(how: Any) -> bool:
    """Read how a query is to be answered (S1.51)."""
    if how is None or how == {}:
        return True
    if not isinstance(how, dict) or list(how) != ["cache"] or how["cache"] not in ("on", "off"):
        raise PrerequisiteError('The fourth argument of Query is {"cache": "on"} or {"cache": "off"}', WRONG_INPUT)
    return bool(how["cache"] == "on")


def _refuse_lock(lock: Any) -> None:
    if lock:
        raise PrerequisiteError("Sync queries are not allowed", WRONG_INPUT)
