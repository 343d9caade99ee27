# SPDX-License-Identifier: BSD-2-Clause
"""A cluster read from its master daemon (spec: htools, 1; protocols, 2)."""

from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.placement.cluster.picture import Cluster
from ganeti.tools.htools.loading import records
from ganeti.wire.framing_sync import SyncConnection, connect

_CONNECT_TIMEOUT_S, _TIMEOUT_S = 10, 60
_NORMAL = 0
_NODE_FIELDS = {
    "name": "name",
    "mtotal": "mtotal",
    "mnode": "mnode",
    "mfree": "mfree",
    "dtotal": "dtotal",
    "dfree": "dfree",
    "ctotal": "ctotal",
    "cnos": "cnos",
    "offline": "offline",
    "drained": "drained",
    "vm_capable": "vm_capable",
    "ndp/spindle_count": "ndparams.spindle_count",
    "group.uuid": "group.uuid",
    "tags": "tags",
    "ndp/exclusive_storage": "ndparams.exclusive_storage",
    "sptotal": "sptotal",
    "spfree": "spfree",
    "ndp/cpu_speed": "ndparams.cpu_speed",
}
_INSTANCE_FIELDS = {
    "name": "name",
    "disk_usage": "disk_usage",
    "be/memory": "oper_ram",
    "be/vcpus": "beparams.vcpus",
    "status": "status",
    "pnode": "pnode",
    "snodes": "snodes",
    "tags": "tags",
    "be/auto_balance": "beparams.auto_balance",
    "disk_template": "disk_template",
    "be/spindle_use": "beparams.spindle_use",
    "disk.sizes": "disk.sizes",
    "disk.spindles": "disk.spindles",
    "forthcoming": "forthcoming",
}
_GROUP_FIELDS = {name: name for name in ("uuid", "name", "alloc_policy", "ipolicy", "tags")}
_INNER = ("ndparams", "beparams")


def read(path: str, *, static_node_memory_mib: int) -> tuple[Cluster, str]:
    """Read the cluster of the master daemon at *path*, and its master's name.

    Raises `TransportError` where nobody answers, `RequestError` for what cannot be understood.
    """
    return records.read(fetch(path), static_node_memory_mib=static_node_memory_mib)


def fetch(path: str) -> records.Records:
    """What the master daemon at *path* says of its cluster; raises as `read`."""
    connection = connect(path, _CONNECT_TIMEOUT_S)
    try:
        connection.set_timeout(_TIMEOUT_S)
        nodes = _query(connection, "node", _NODE_FIELDS)
        _check_answered(nodes)
        instances = _query(connection, "instance", _INSTANCE_FIELDS)
        info = _call(connection, "QueryClusterInfo")
        groups = _query(connection, "group", _GROUP_FIELDS)
    finally:
        connection.close()
    return records.Records(groups, nodes, instances, info, cpu_speeds=True)


def times_of_change(path: str) -> dict[str, float]:
    """When each instance was changed last, in seconds since 1970; raises `TransportError`."""
    connection = connect(path, _CONNECT_TIMEOUT_S)
    try:
        connection.set_timeout(_TIMEOUT_S)
        rows = _query(connection, "instance", {"name": "name", "mtime": "mtime"})
    finally:
        connection.close()
    return {row["name"]: float(row["mtime"]) for row in rows if isinstance(row["mtime"], int | float)}


def _query(connection: SyncConnection, what: str, fields: dict[str, str]) -> list[dict[str, Any]]:
    answer = _call(connection, "Query", what, list(fields), None)
    return [_record(list(fields.values()), row) for row in answer["data"]]


def _check_answered(nodes: Sequence[dict[str, Any]]) -> None:
    """Raise `TransportError` for a node that should tell of itself and did not: nothing can be planned around it."""
    for node in nodes:
        if node["mtotal"] is None and node["vm_capable"] is not False and not node["offline"]:
            raise TransportError(
                f"Node {node['name']} did not say what it has: start its node daemon, or mark it offline with"
                " 'gnt-node modify --offline=yes'"
            )


def _record(names: Sequence[str], row: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A row of an answer as RAPI would have it; what could not be found out is null."""
    record: dict[str, Any] = {}
    for name, (status, value) in zip(names, row, strict=True):
        outer, _, inner = name.partition(".")
        known = value if status == _NORMAL else None
        if outer in _INNER:
            record.setdefault(outer, {})[inner] = known
        else:
            record[name] = known
    return record


def _call(connection: SyncConnection, method: str, *arguments: Any) -> Any:
    connection.send({"method": method, "args": list(arguments)})
    answer = connection.receive()
    if not isinstance(answer, dict) or not answer.get("success"):
        reason = answer.get("result") if isinstance(answer, dict) else answer
        raise TransportError(f"The master daemon refuses {method}: {reason}")
    return answer["result"]
