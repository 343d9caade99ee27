# SPDX-License-Identifier: BSD-2-Clause
"""What `/2` answers without a job: lists, objects, jobs, filters, queries (rapi, section 3)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from ganeti.base.errors import JobLost, ParameterError, PrerequisiteError
from ganeti.model.templates import IN_BUILT_IN_POLICY
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.api_request import ApiRequest
from ganeti.wire.job_file import read_job_id

_SHOWN: Final = 40
"""So much of what was taken for a number is told back."""
FEATURES: Final = ["instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1"]


def _known_templates(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave disk templates that 3.1 has not out of policies: htools would refuse to read the cluster."""
    for key in ("ipolicy", "custom_ipolicy"):
        policy = shown.get(key)
        if isinstance(policy, dict) and isinstance(policy.get(_TEMPLATES), list):
            known = [name for name in policy[_TEMPLATES] if name in _TEMPLATES_OF_3_1]
            shown = {**shown, key: {**policy, _TEMPLATES: known}}
    return shown


def _with_memory(beparams: Any) -> Any:
    """Add the name that memory had before it had a minimum and a maximum: clients of 3.1 read it."""
    if isinstance(beparams, dict) and "maxmem" in beparams:
        return {**beparams, "memory": beparams["maxmem"]}
    return beparams


def _listed(words: str) -> list[str]:
    """With the fields that all objects have."""
    return f"{words} ctime mtime uuid serial_no tags".split()


INSTANCE_FIELDS: Final = _listed(
    "name admin_state os pnode snodes disk_template nic.ips nic.macs nic.modes nic.uuids nic.names nic.links "
    "nic.networks nic.networks.names nic.bridges network_port disk.sizes disk.spindles disk_usage disk.uuids "
    "disk.names beparams hvparams oper_state oper_ram oper_vcpus status custom_hvparams custom_beparams "
    "custom_nicparams custom_osparams"
)
NODE_FIELDS: Final = _listed(
    "name offline master_candidate drained dtotal dfree sptotal spfree mtotal mnode mfree pinst_cnt sinst_cnt "
    "ctotal cnos cnodes csockets pip sip role pinst_list sinst_list master_capable vm_capable ndparams group.uuid"
)
NETWORK_FIELDS: Final = _listed(
    "name network gateway network6 gateway6 mac_prefix free_count reserved_count map group_list inst_list "
    "external_reservations"
)
GROUP_FIELDS: Final = _listed(
    "alloc_policy name node_cnt node_list ipolicy custom_ipolicy diskparams custom_diskparams ndparams custom_ndparams"
)
JOB_FIELDS: Final = ["id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts"]
_JOB_DETAILS: Final = [*JOB_FIELDS, "oplog", "opresult"]
_FILTER_FIELDS: Final = ["watermark", "priority", "predicates", "action", "reason_trail", "uuid"]
_TEMPLATES: Final = "disk-templates"
_TEMPLATES_OF_3_1: Final = frozenset(IN_BUILT_IN_POLICY)
_ROLES: Final = {"M": "master", "C": "master-candidate", "R": "regular", "D": "drained", "O": "offline"}
_ROWS_AT_ONCE: Final = 100
_VALUES: Final = msgspec.json.Decoder(list[msgspec.Raw])
WAIT_S: Final = 10.0
"""How long a wait for a job is held open."""


class Luxi(Protocol):
    """LuxiD, as far as this asks it."""

    async def call(self, method: str, *arguments: Any, patience_s: float = ..., only_asks: bool = ...) -> Any:
        """Raises what LuxiD answers, or `TransportError`."""

    async def raw(self, method: str, *arguments: Any, patience_s: float = ..., only_asks: bool = ...) -> msgspec.Raw:
        """As `call`; the answer is JSON as it came."""

    def life(self) -> object:
        """Give what changes whenever another LuxiD answers."""


Reader = Callable[[Luxi, ApiRequest], Awaitable[Any]]


@dataclass(frozen=True)
class Resource:
    """A request that is answered at once; *access* is as the specification has it."""

    method: str
    path: str
    reader: Reader
    access: str = "read"


@dataclass(frozen=True)
class _Kind:
    """Objects that are listed and shown in one way."""

    path: str
    part: str
    call: str
    fields: Sequence[str]
    owner: str
    """What their tags are asked for by."""
    key: str = "name"
    shown: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Makes of an object what clients of 3.1 can read; None where all of it is."""
    changed: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """As *shown*, for values of single fields: a long list can be sent as it comes then."""

    async def listed(self, luxi: Luxi, request: ApiRequest) -> Any:
        if not request.flag("bulk"):
            rows = await ask(luxi, self.call, [], ["name"], request.flag("lock"))
            return [{self.key: name, "uri": f"{self.path}/{name}"} for [name] in rows]
        rows = await luxi.raw(self.call, [], list(self.fields), request.flag("lock"), only_asks=True)
        if self.shown is not None:
            return [self.shown(dict(zip(self.fields, row, strict=True))) for row in msgspec.json.decode(rows)]
        return RowsAsObjects(self.fields, rows, self.changed)

    async def show(self, luxi: Luxi, request: ApiRequest) -> Any:
        [row] = await self.rows(luxi, request, list(self.fields))
        shown = dict(zip(self.fields, row, strict=True))
        shown |= {name: change(shown[name]) for name, change in self.changed.items()}
        if self.shown is not None:
            return self.shown(shown)
        return shown | {"secondary_ip": shown["sip"]} if self.owner == "node" else shown

    async def rows(self, luxi: Luxi, request: ApiRequest, fields: list[str]) -> Any:
        name = request.parts[self.part]
        rows = await ask(luxi, self.call, [name], fields, request.flag("lock"))
        if not rows:
            raise RequestRefused(404, f"There is no {self.owner} '{name}'")
        return rows

    async def tags(self, luxi: Luxi, request: ApiRequest) -> Any:
        return await ask(luxi, "QueryTags", self.owner, request.parts[self.part])

    def resources(self) -> list[Resource]:
        one = f"{self.path}/[{self.part}]"
        return [
            Resource("GET", self.path, self.listed),
            Resource("GET", one, self.show),
            Resource("GET", f"{one}/tags", self.tags),
        ]


_INSTANCES: Final = _Kind(
    "/2/instances",
    "instance_name",
    "QueryInstances",
    INSTANCE_FIELDS,
    "instance",
    "id",
    changed={"beparams": _with_memory},
)
_NODES: Final = _Kind("/2/nodes", "node_name", "QueryNodes", NODE_FIELDS, "node", "id")
_GROUPS: Final = _Kind("/2/groups", "group_name", "QueryGroups", GROUP_FIELDS, "nodegroup", shown=_known_templates)
_NETWORKS: Final = _Kind("/2/networks", "network_name", "QueryNetworks", NETWORK_FIELDS, "network")


class RowsAsObjects:
    """A long list, whose rows become objects while they are sent: values pass as they came."""

    def __init__(
        self, fields: Sequence[str], rows: msgspec.Raw, changed: Mapping[str, Callable[[Any], Any]] | None = None
    ) -> None:
        self._keys = [b"%s:" % msgspec.json.encode(name) for name in fields]
        self._changed = [(fields.index(name), change) for name, change in (changed or {}).items()]
        self._rows = msgspec.json.decode(rows, type=list[msgspec.Raw])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        before = b"["
        for start in range(0, len(self._rows), _ROWS_AT_ONCE):
            rows = b",".join(self._object(row) for row in self._rows[start : start + _ROWS_AT_ONCE])
            yield before + rows
            before = b","
            await asyncio.sleep(0)
        yield b"]\n" if self._rows else b"[]\n"

    def _object(self, row: msgspec.Raw) -> bytes:
        values = _VALUES.decode(row)
        for index, change in self._changed:
            values[index] = msgspec.Raw(msgspec.json.encode(change(msgspec.json.decode(values[index]))))
        return b"{%s}" % b",".join([key + bytes(value) for key, value in zip(self._keys, values, strict=True)])


async def ask(luxi: Luxi, method: str, *arguments: Any) -> Any:
    return await luxi.call(method, *arguments, patience_s=0.0, only_asks=True)


def constant(value: Any) -> Reader:
    async def give(luxi: Luxi, request: ApiRequest) -> Any:
        return value

    return give


async def _info(luxi: Luxi, request: ApiRequest) -> Any:
    found = _known_templates(await ask(luxi, "QueryClusterInfo"))
    return found | {"vg_name": found.get("volume_group_name"), "drbd_helper": found.get("drbd_usermode_helper")}


async def _operating_systems(luxi: Luxi, request: ApiRequest) -> Any:
    fields = ["name", "variants", "valid", "hidden", "blacklisted"]
    job = await luxi.call("SubmitJob", [{"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields, "names": []}])
    previous: Any = None
    while True:
        previous, _ = await ask(luxi, "WaitForJobChange", job, ["status", "opresult"], previous, None, WAIT_S)
        status, results = previous
        if status == "success":
            break
        if status in ("error", "canceled"):
            raise RequestRefused(500, f"Job {job}, which asks the nodes for operating systems, has failed")
    if not results or not isinstance(results[0], list):
        raise RequestRefused(502, "The nodes gave no list of operating systems")
    return [
        f"{name}+{variant}" if variant else name
        for name, variants, valid, hidden, blacklisted in results[0]
        if valid and not hidden and not blacklisted
        for variant in variants or [""]
    ]


async def _cluster_tags(luxi: Luxi, request: ApiRequest) -> Any:
    return await ask(luxi, "QueryTags", "cluster", "")


async def _node_role(luxi: Luxi, request: ApiRequest) -> Any:
    [[role]] = await _NODES.rows(luxi, request, ["role"])
    return _ROLES[role]


async def _jobs(luxi: Luxi, request: ApiRequest) -> Any:
    if request.flag("bulk"):
        return RowsAsObjects(JOB_FIELDS, await luxi.raw("QueryJobs", None, JOB_FIELDS, only_asks=True))
    return [{"id": job, "uri": f"/2/jobs/{job}"} for [job] in await ask(luxi, "QueryJobs", None, ["id"])]


async def _job(luxi: Luxi, request: ApiRequest) -> Any:
    [row] = await ask(luxi, "QueryJobs", [_job_id(request)], _JOB_DETAILS)
    return dict(zip(_JOB_DETAILS, row, strict=True))


async def _cancel_job(luxi: Luxi, request: ApiRequest) -> Any:
    job = _job_id(request)
    try:
        return await luxi.call("CancelJob", job, patience_s=0.0)
    except JobLost:
        return [False, f"Job {job} not found in queue"]


async def _wait_for_job(luxi: Luxi, request: ApiRequest) -> Any:
    body = request.object()
    fields = body.get("fields")
    if not _are_names(fields):
        raise RequestRefused(400, "The body must have the key 'fields' with a list of fields of jobs")
    previous, serial = body.get("previous_job_info"), body.get("previous_log_serial")
    if serial is not None and (isinstance(serial, bool) or not isinstance(serial, int)):
        raise RequestRefused(400, "The key 'previous_log_serial' must be a whole number, or null")
    values, entries = await ask(luxi, "WaitForJobChange", _job_id(request), fields, previous, serial, WAIT_S)
    return {"job_info": values, "log_entries": entries}


def _are_names(fields: Any) -> bool:
    return isinstance(fields, list) and all(isinstance(name, str) for name in fields)


def job_number(word: str) -> int:
    """Read a part of a path; raises `RequestRefused`."""
    number = read_job_id(word)
    if number is None:
        raise RequestRefused(404, f"'{word[:_SHOWN]}' is not the number of a job")
    return number


def _job_id(request: ApiRequest) -> int:
    return job_number(request.parts["job"])


async def _incidents(luxi: Luxi, request: ApiRequest) -> Any:
    return await ask(luxi, "KnownIncidents")


async def _filters(luxi: Luxi, request: ApiRequest) -> Any:
    if request.flag("bulk"):
        rows = await ask(luxi, "QueryFilters", None, _FILTER_FIELDS)
        return [dict(zip(_FILTER_FIELDS, row, strict=True)) for row in rows]
    rows = await ask(luxi, "QueryFilters", None, ["uuid"])
    return [{"uuid": uuid, "uri": f"/2/filters/{uuid}"} for [uuid] in rows]


async def _filter(luxi: Luxi, request: ApiRequest) -> Any:
    rows = await ask(luxi, "QueryFilters", [request.parts["uuid"]], _FILTER_FIELDS)
    if not rows or rows[0] is None:
        raise RequestRefused(404, f"There is no filter rule '{request.parts['uuid']}'")
    return dict(zip(_FILTER_FIELDS, rows[0], strict=True))


async def _replace_filter(luxi: Luxi, request: ApiRequest) -> Any:
    defaults: dict[str, Any] = {"priority": 0, "predicates": [], "action": "CONTINUE", "reason": []}
    if not request.has_body:
        raise RequestRefused(400, f"The body must be a JSON object with any of {', '.join(defaults)}")
    rule = defaults | request.object()
    if unknown := sorted(rule.keys() - defaults.keys()):
        raise RequestRefused(400, f"A filter rule has no '{unknown[0]}': there are {', '.join(defaults)}")
    try:
        return await luxi.call("ReplaceFilter", request.parts.get("uuid"), *rule.values(), patience_s=0.0)
    except ParameterError as err:
        raise RequestRefused(400, str(err)) from err


async def _delete_filter(luxi: Luxi, request: ApiRequest) -> Any:
    return await luxi.call("DeleteFilter", request.parts["uuid"], patience_s=0.0)


async def _console(luxi: Luxi, request: ApiRequest) -> Any:
    [[console]] = await _INSTANCES.rows(luxi, request, ["console"])
    if console is None:
        raise RequestRefused(503, "There is no console: the instance does not run, or its node does not answer")
    return console


async def _query(luxi: Luxi, request: ApiRequest) -> Any:
    body = request.object()
    fields = body.get("fields", request.fields())
    if not _are_names(fields):
        raise RequestRefused(400, "Name the fields that are wanted: ?fields=name,uuid")
    qfilter = body.get("qfilter", body.get("filter"))
    if not isinstance(qfilter, list | None):
        raise RequestRefused(400, 'The key \'qfilter\' must be a list, such as ["=", "name", "web1"], or null')
    return await ask(luxi, "Query", request.parts["resource"], fields, qfilter)


async def _query_fields(luxi: Luxi, request: ApiRequest) -> Any:
    try:
        return await ask(luxi, "QueryFields", request.parts["resource"], request.fields())
    except PrerequisiteError as err:
        raise RequestRefused(500, str(err)) from err


RESOURCES: Final = [
    Resource("GET", "/", constant(None), "open"),
    Resource("GET", "/2", constant(None)),
    Resource("GET", "/version", constant(2)),
    Resource("GET", "/2/info", _info),
    Resource("GET", "/2/features", constant(FEATURES)),
    Resource("GET", "/2/os", _operating_systems),
    Resource("GET", "/2/tags", _cluster_tags),
    *_INSTANCES.resources(),
    *_NODES.resources(),
    *_GROUPS.resources(),
    *_NETWORKS.resources(),
    Resource("GET", "/2/nodes/[node_name]/role", _node_role),
    Resource("GET", "/2/instances/[instance_name]/console", _console, "read or write"),
    Resource("GET", "/2/jobs", _jobs),
    Resource("GET", "/2/jobs/[job]", _job),
    Resource("DELETE", "/2/jobs/[job]", _cancel_job, "write"),
    Resource("GET", "/2/jobs/[job]/wait", _wait_for_job, "write"),
    Resource("GET", "/2/maintenance/incidents", _incidents),
    Resource("GET", "/2/filters", _filters),
    Resource("POST", "/2/filters", _replace_filter, "write"),
    Resource("GET", "/2/filters/[uuid]", _filter),
    Resource("PUT", "/2/filters/[uuid]", _replace_filter, "write"),
    Resource("DELETE", "/2/filters/[uuid]", _delete_filter, "write"),
    Resource("GET", "/2/query/[resource]", _query, "read or write"),
    Resource("PUT", "/2/query/[resource]", _query, "read or write"),
    Resource("GET", "/2/query/[resource]/fields", _query_fields),
]
