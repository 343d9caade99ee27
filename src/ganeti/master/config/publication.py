# SPDX-License-Identifier: BSD-2-Clause
"""The durable configuration in its outside forms: `config.data` and the ssconf files (protocols, sections 14, 15).

Kept up commit by commit, so that publishing joins ready fragments and encodes nothing again. What `config_parts` and
`ssconf_source` give is a snapshot: other threads may use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import msgspec

from ganeti.master.config.file_layout import single_parts
from ganeti.master.config.fingerprint import Fingerprint
from ganeti.master.config.records import Commit, ObjectKey, Position
from ganeti.model.configuration import Configuration
from ganeti.model.inheritance import group_nd
from ganeti.model.objects import CLUSTER_KEY, CONTAINERS, KINDS, Cluster, ConfigObject, Network, Node, NodeGroup, Plain
from ganeti.wire.ssconf import HVPARAMS_HYPERVISORS, write_lines

RELEASE_VERSION = "3.1.0"
_IN_SSCONF = ("cluster", "nodes", "nodegroups", "networks")


@dataclass(frozen=True)
class SsconfSource:
    """What the ssconf files are made from."""

    cluster: Cluster
    nodes: list[Node]
    groups: list[NodeGroup]
    networks: list[Network]
    instance_names: list[str]


class PublishedForm:
    """The fragments of all objects, their fingerprint, and the few objects that ssconf tells of."""

    def __init__(self, config: Configuration, fragments: Mapping[ObjectKey, bytes], mtime_s: float) -> None:
        self.position: Position = config.position
        self.ssconf_position: Position = config.position
        """Position of the last commit that touched what ssconf tells."""
        self._set_all(config, fragments, mtime_s)

    def _set_all(self, config: Configuration, fragments: Mapping[ObjectKey, bytes], mtime_s: float) -> None:
        self._header = dict(config.header)
        self._mtime_s = mtime_s
        self._entries: dict[str, dict[str, bytes]] = {kind: {} for kind in KINDS}
        self._small: dict[str, dict[str, ConfigObject]] = {kind: {} for kind in _IN_SSCONF}
        self._instance_names: dict[str, str] = {}
        self._changed: dict[ObjectKey, bytes | None] | None = None
        self.fingerprint = Fingerprint(self._header, fragments)
        for kind in KINDS:
            for uuid in config.uuids(kind):
                self._put(kind, uuid, cast(ConfigObject, config.get(kind, uuid)), fragments[kind, uuid])

    def apply(self, commit: Commit) -> None:
        """Take over a commit that is durable."""
        if not commit.changes_objects:
            return
        self.position = commit.position
        self._mtime_s = commit.time_s
        if commit.whole:
            self._header = dict(commit.header or {})
            self._entries = {kind: {} for kind in KINDS}
            self._small = {kind: {} for kind in _IN_SSCONF}
            self._instance_names = {}
            self._changed = None
            self.fingerprint.reset(self._header, {(put.kind, put.uuid): put.data for put in commit.puts})
            self.ssconf_position = commit.position
        else:
            self.fingerprint.apply(commit)
        for put in commit.puts:
            self._put(put.kind, put.uuid, put.obj, put.data)
        for kind, uuid in commit.removes:
            self._remove(kind, uuid)

    def header(self) -> Plain:
        """Top-level keys of `config.data` at this position."""
        return self._header | {"serial_no": self.position[1], "mtime": self._mtime_s}

    @property
    def digest(self) -> str:
        """Fingerprint of `config.data` at this position."""
        return self.fingerprint.now(self.position[1], self._mtime_s)

    def header_data(self) -> bytes:
        return msgspec.json.encode(self.header())

    def entries(self) -> dict[str, dict[str, bytes]]:
        """All fragments by kind and uuid: a snapshot."""
        return {kind: dict(entries) for kind, entries in self._entries.items()}

    def take_changes(self) -> list[tuple[ObjectKey, bytes | None]] | None:
        """The new fragments since this was last asked, None for what was removed; None at all if all may be new."""
        changed, self._changed = self._changed, {}
        return None if changed is None else list(changed.items())

    def config_parts(self) -> list[bytes]:
        """The pieces of `config.data`; joined they are the file."""
        parts = [self.header_data()[:-1], *single_parts(self._entries)]
        for kind in CONTAINERS:
            entries = self._entries[kind]
            parts += [b',"', kind.encode(), b'":{']
            for uuid, data in entries.items():
                parts += [msgspec.json.encode(uuid), b":", data, b","]
            if entries:
                parts.pop()
            parts.append(b"}")
        parts.append(b"}")
        return parts

    def ssconf_source(self) -> SsconfSource:
        return SsconfSource(
            cluster=cast(Cluster, self._small["cluster"][CLUSTER_KEY]),
            nodes=cast(list[Node], list(self._small["nodes"].values())),
            groups=cast(list[NodeGroup], list(self._small["nodegroups"].values())),
            networks=cast(list[Network], list(self._small["networks"].values())),
            instance_names=list(self._instance_names.values()),
        )

    def _put(self, kind: str, uuid: str, obj: ConfigObject, data: bytes) -> None:
        self._entries[kind][uuid] = data
        if self._changed is not None:
            self._changed[kind, uuid] = data
        if kind in self._small:
            self._small[kind][uuid] = obj
            self.ssconf_position = self.position
        elif kind == "instances":
            name = getattr(obj, "name", "")
            if self._instance_names.get(uuid) != name:
                self._instance_names[uuid] = name
                self.ssconf_position = self.position

    def _remove(self, kind: str, uuid: str) -> None:
        self._entries[kind].pop(uuid, None)
        if self._changed is not None:
            self._changed[kind, uuid] = None
        if kind in self._small:
            self._small[kind].pop(uuid, None)
            self.ssconf_position = self.position
        elif kind == "instances":
            self._instance_names.pop(uuid, None)
            self.ssconf_position = self.position


def ssconf_files(source: SsconfSource) -> dict[str, str]:
    """Give the text of every ssconf file by its key."""
    cluster = source.cluster
    master = next(node for node in source.nodes if node.uuid == cluster.master_node)
    single: dict[str, object] = {
        "cluster_name": cluster.cluster_name,
        "file_storage_dir": cluster.file_storage_dir,
        "shared_file_storage_dir": cluster.shared_file_storage_dir,
        "gluster_storage_dir": cluster.gluster_storage_dir,
        "master_ip": cluster.master_ip,
        "master_netdev": cluster.master_netdev,
        "master_netmask": cluster.master_netmask,
        "master_node": master.name,
        "primary_ip_family": cluster.primary_ip_family,
        "release_version": RELEASE_VERSION,
        "maintain_node_health": cluster.maintain_node_health,
        "enabled_user_shutdown": cluster.enabled_user_shutdown,
    }
    files = {key: write_lines([value]) for key, value in single.items()}
    files |= {
        "cluster_tags": write_lines(sorted(cluster.tags)),
        "instance_list": write_lines(sorted(source.instance_names)),
        "hypervisor_list": write_lines(cluster.enabled_hypervisors),
        "uid_pool": write_lines(_uid_range(pair) for pair in cluster.uid_pool),
        "nodegroups": write_lines(sorted(f"{group.uuid} {group.name}" for group in source.groups)),
        "networks": write_lines(sorted(f"{network.uuid} {network.name}" for network in source.networks)),
        "master_candidates_certs": write_lines(
            f"{uuid}={digest}" for uuid, digest in sorted(cluster.candidate_certs.items())
        ),
    }
    for hypervisor in HVPARAMS_HYPERVISORS:
        parameters = cluster.hvparams.get(hypervisor, {})
        files[f"hvparams_{hypervisor}"] = write_lines(f"{key}={value}" for key, value in sorted(parameters.items()))
    return files | _node_files(source)


def _node_files(source: SsconfSource) -> dict[str, str]:
    nodes = sorted(source.nodes, key=lambda node: node.name)
    groups = {group.uuid: group for group in source.groups}
    ssh_ports = {
        node.name: (group_nd(source.cluster, groups[node.group]) | node.ndparams)["ssh_port"] for node in nodes
    }
    return {
        "node_list": write_lines(node.name for node in nodes),
        "master_candidates": write_lines(node.name for node in nodes if node.master_candidate),
        "master_candidates_ips": write_lines(node.primary_ip for node in nodes if node.master_candidate),
        "node_primary_ips": write_lines(f"{node.name} {node.primary_ip}" for node in nodes),
        "node_secondary_ips": write_lines(f"{node.name} {node.secondary_ip}" for node in nodes),
        "node_vm_capable": write_lines(f"{node.name}={node.vm_capable}" for node in nodes),
        "offline_nodes": write_lines(node.name for node in nodes if node.offline),
        "online_nodes": write_lines(node.name for node in nodes if not node.offline),
        "ssh_ports": write_lines(f"{name}={port}" for name, port in ssh_ports.items()),
    }


def _uid_range(pair: list[int]) -> str:
    low, high = pair[0], pair[-1]
    return str(low) if low == high else f"{low}-{high}"
