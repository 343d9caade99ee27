# SPDX-License-Identifier: BSD-2-Clause
"""The iallocator protocol: what an allocator program reads and writes (spec: protocols, 7; S5.8-S5.43, X9).

Written is version 2 of 3.1. Read are also the spellings of older versions, which are turned into those of version 2
here, so that nobody else has to know them: ``should_run`` and ``admin_up`` for ``admin_state``, disk mode ``w`` for
``rw``, a NIC's ``bridge`` for its link, ``requested_nodes``, ``nodes`` in place of ``result`` and of ``evac_nodes``.
A message without node groups, as in the examples of the protocol's first description, need not tell of CPUs either, and
may hold instances that are on none of its nodes.

Standard library only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import ParameterError

VERSION = 2
UNCOUNTED_CPUS = 1 << 20
"""Of a node that does not say how many it has: so many that they limit nothing."""


class AllocatorMessageError(ParameterError):
    """A message that breaks the protocol; the sentence says how."""


@dataclass(frozen=True, slots=True)
class Response:
    """An allocator's answer; *result* has the shape of the request's type and is empty unless *success*."""

    success: bool
    info: str
    result: Any


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Bytes of the input file of an allocator."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()


def modern(message: Mapping[str, Any]) -> dict[str, Any]:
    """*message* in the spellings of version 2, whatever version it names: 3.1 does not ask."""
    new = dict(message)
    if "version" in new:
        new["version"] = VERSION
    instances = message.get("instances")
    if isinstance(instances, dict):
        new["instances"] = {name: _modern_instance(data) for name, data in instances.items()}
    if "nodegroups" not in message and isinstance(message.get("nodes"), dict):
        new |= _from_before_groups(message["nodes"], new.get("instances"))
    request = message.get("request")
    if isinstance(request, dict):
        new["request"] = _modern_request(request)
    return new


def _from_before_groups(nodes: dict[str, Any], instances: Any) -> dict[str, Any]:
    """Nodes with their CPUs, and the instances that are on one of them."""
    new: dict[str, Any] = {
        "nodes": {
            name: {"total_cpus": UNCOUNTED_CPUS} | data if isinstance(data, dict) else data
            for name, data in nodes.items()
        }
    }
    if isinstance(instances, dict):
        new["instances"] = {name: data for name, data in instances.items() if not _is_elsewhere(data, nodes)}
    return new


def _is_elsewhere(instance: Any, nodes: dict[str, Any]) -> bool:
    places = instance.get("nodes") if isinstance(instance, dict) else None
    return isinstance(places, list) and bool(places) and all(isinstance(p, str) and p not in nodes for p in places)


def _modern_instance(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    new = dict(data)
    for old in ("admin_up", "should_run"):
        if old in new:
            runs = new.pop(old)
            new.setdefault("admin_state", "up" if runs else "down")
    for key, renew in (("disks", _modern_disk), ("nics", _modern_nic)):
        if isinstance(new.get(key), list):
            new[key] = [renew(item) for item in new[key]]
    return new


def _modern_disk(disk: Any) -> Any:
    return disk | {"mode": "rw"} if isinstance(disk, dict) and disk.get("mode") == "w" else disk


def _modern_nic(nic: Any) -> Any:
    if isinstance(nic, dict) and "bridge" in nic and "link" not in nic:
        return nic | {"mode": "bridged", "link": nic["bridge"]}
    return nic


def _modern_request(request: dict[str, Any]) -> Any:
    new = _modern_instance(request)
    if "requested_nodes" in new:
        new.setdefault("required_nodes", new.pop("requested_nodes"))
    if new.get("type") == "multi-evacuate" and "nodes" in new:
        new.setdefault("evac_nodes", new.pop("nodes"))
    if isinstance(new.get("instances"), list):
        new["instances"] = [_modern_request(item) if isinstance(item, dict) else item for item in new["instances"]]
    return new


def encode_response(response: Response) -> bytes:
    """One line, keys in the order of 3.1."""
    data = {"success": response.success, "info": response.info, "result": response.result}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_response(data: bytes) -> Response:
    """Read what an allocator wrote (S5.37, S5.40); raises `AllocatorMessageError` with a sentence for its author."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AllocatorMessageError(f"Can't parse iallocator results: {error}") from error
    if not isinstance(found, dict):
        raise AllocatorMessageError("Can't parse iallocator results: not a dict")
    if "nodes" in found and "result" not in found:
        found["result"] = found["nodes"]
    for key in ("success", "info", "result"):
        if key not in found:
            raise AllocatorMessageError(f"Can't parse iallocator results: missing key '{key}'")
    if not isinstance(found["success"], bool):
        raise AllocatorMessageError("Can't parse iallocator results: 'success' is neither true nor false")
    info = found["info"]
    return Response(found["success"], "" if info is None else str(info), found["result"])


def selected_nodes(response: Response, required: int, known: Sequence[str]) -> list[str]:
    """Names chosen by an allocate or relocate answer (S5.38); raises `AllocatorMessageError` for unusable ones."""
    names = response.result
    if isinstance(names, str) and required == 1:
        names = [names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AllocatorMessageError("Can't parse iallocator results: 'result' key is not a list of node names")
    if len(names) != required:
        raise AllocatorMessageError(
            f"the allocator returned an invalid number of nodes ({len(names)}), required {required}"
        )
    for name in names:
        if name not in known:
            raise AllocatorMessageError(f"the allocator returned node {name}, which the cluster does not have")
    if len(set(names)) != len(names):
        raise AllocatorMessageError(f"the allocator returned node {names[0]} twice")
    return list(names)
