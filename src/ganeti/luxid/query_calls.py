# SPDX-License-Identifier: BSD-2-Clause
"""LUXI calls that only ask, or concern no job (protocols, section 2)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.serving import Handler, Reads, handler_of, serves
from ganeti.luxid.arguments import Fields, Lock, Names, NodeNames, RuleIds, SomeFields
from ganeti.luxid.queries.answers import answered
from ganeti.luxid.queries.sources import QuerySources
from ganeti.master.query.cluster import ClusterRow, cluster_info, config_values
from ganeti.master.query.exports import export_rows
from ganeti.master.query.fields import Field, QueryWorld, Resource
from ganeti.master.query.filters import asked_names
from ganeti.master.query.running import describe_fields, legacy_rows, names_filter, present, selected
from ganeti.stores.watcher_pause import watcher_pause
from ganeti.wire.framing import Pieces

_TAGGED = {"node": "find_node", "instance": "find_instance", "nodegroup": "find_group", "network": "find_network"}


def _may_be_cached(how: Any) -> bool:
    """Read how a query is to be answered (S1.51)."""
    if how is None or how == {}:
        return True
    if not isinstance(how, dict) or list(how) != ["cache"] or how["cache"] not in ("on", "off"):
        raise PrerequisiteError('The fourth argument of Query is {"cache": "on"} or {"cache": "off"}', WRONG_INPUT)
    return bool(how["cache"] == "on")


def _jobs_or_all(ids: Any) -> list[Any] | None:
    if ids is not None and not isinstance(ids, list):
        raise PrerequisiteError("QueryJobs takes a list of job ids, or null for all", WRONG_INPUT)
    return ids or None


Cached = Annotated[bool, Reads(_may_be_cached)]
JobsOrAll = Annotated[list[Any] | None, Reads(_jobs_or_all)]


class QueryCalls:
    """Handlers of LUXI requests."""

    def __init__(self, paths: Paths, sources: QuerySources) -> None:
        self._paths = paths
        self._sources = sources

    def of_resources(self) -> dict[str, Handler]:
        """The calls from before the query language, of the resources that have one."""
        return {
            each.plain_call: handler_of(each.plain_call, self._plain(each))
            for each in self._sources.resources
            if each.plain_call
        }

    @serves("Query")
    async def query(self, what: Any, names: Fields, qfilter: Any, cached: Cached = True) -> Pieces:
        """What, fields, filter; and a fourth argument that clients of 3.1 do not have: ``{"cache": "off"}``."""
        if what == "job" and asked_names(qfilter, "id") is None:
            return _described(*await self._sources.job_list(names, qfilter))
        resource = self._sources.resource(what)
        if (found := await self._sources.long_list(resource, names, qfilter)) is not None:
            return _described(*found)
        return _described(*await self._run(resource, names, qfilter, cached=cached))

    @serves("QueryFields")
    async def query_fields(self, what: Any, names: SomeFields = ()) -> dict[str, Any]:
        return describe_fields(self._sources.resource(what), names)

    @serves("QueryJobs")
    async def query_jobs(self, ids: JobsOrAll, names: Fields) -> Pieces:
        """Rows of plain values; a job that does not exist has its id and nothing else."""
        return await self._sources.plain_job_list(ids, names)

    @serves("QueryFilters")
    async def query_filters(self, uuids: RuleIds, names: Fields) -> Pieces:
        return await self._plain_rows(self._sources.resource("filter"), names, uuids)

    @serves("QueryExports")
    async def query_exports(self, names: NodeNames, lock: Lock) -> list[Any]:
        rows = await export_rows(self._sources.view, self._sources.asker, names)
        return [[row.node, row.export] for row in rows]

    @serves("QueryConfigValues")
    async def query_config_values(self, names: Fields) -> list[Any]:
        return config_values(self._cluster_row(), names)

    @serves("QueryClusterInfo")
    async def query_cluster_info(self) -> dict[str, Any]:
        return cluster_info(self._sources.view, self._sources.catalogue)

    @serves("QueryTags")
    async def query_tags(self, kind: Any, name: Any = "") -> list[str]:
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

    def _plain(self, resource: Resource) -> Callable[..., Awaitable[Pieces]]:
        """What answers with rows of plain values."""

        async def answer(names: Names, fields: Fields, lock: Lock = None) -> Pieces:
            return await self._plain_rows(resource, fields, names)

        return answer

    async def _plain_rows(self, resource: Resource, asked: list[str], names: Sequence[Any]) -> Pieces:
        legacy_rows(resource, selected(resource, asked), [])
        if names:
            rows = await self._sources.rows(resource, names_filter(resource, names))
            names = present(resource, rows, names)
            if not names:
                return Pieces([b"[]"])
        return (await self._run(resource, asked, names_filter(resource, names), plain=True))[1]

    async def _run(
        self, resource: Resource, names: Sequence[str], qfilter: Any, *, cached: bool = True, plain: bool = False
    ) -> tuple[list[Field], Pieces]:
        rows = await self._sources.rows(resource, qfilter, names)
        return await answered(resource, rows, names, qfilter, self._sources.collector(cached=cached), plain=plain)

    def _cluster_row(self) -> ClusterRow:
        world = QueryWorld(self._sources.view, self._sources.catalogue)
        return ClusterRow(world, self._sources.drained, watcher_pause(self._paths))


def _described(fields: list[Field], rows: Pieces) -> Pieces:
    described = msgspec.json.encode([field.describe() for field in fields])
    return rows.within(b'{"fields":%s,"data":' % described, b"}")
