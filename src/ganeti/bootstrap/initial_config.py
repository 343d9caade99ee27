# SPDX-License-Identifier: BSD-2-Clause
"""The configuration a cluster begins with: one node, one group (protocols, sections 14 and 25). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.master.config.publication import SsconfSource, ssconf_files
from ganeti.master.operations.cluster.communication import new_network
from ganeti.model import communication, data_collectors
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CLUSTER_KEY, CONFIG_VERSION, Cluster, Node, NodeGroup

FIRST_GROUP = "default"
FIRST_SERIAL = 1
FAMILY_NUMBERS = {4: 2, 6: 10}
"""IP version to the number of the address family, as ssconf has it."""


@dataclass(frozen=True)
class Beginning:
    """All that has been found out and checked before anything is written."""

    cluster_name: str
    node_name: str
    ip_version: int
    primary_ip: str
    secondary_ip: str
    master_ip: str
    master_netdev: str
    master_netmask: int
    hypervisors: list[str]
    templates: list[str]
    directories: dict[str, str]
    """Setting to directory, for every setting there is."""
    mac_prefix: str
    volume_group: str | None
    drbd_helper: str | None
    parameters: dict[str, Any]
    policy: dict[str, Any]
    allocator: str
    ssh_key_type: str
    ssh_key_bits: int
    modify_etc_hosts: bool
    modify_ssh_setup: bool
    host_keys: Mapping[str, str]
    """Kind of key to its base64 text."""
    plain: dict[str, Any]


@dataclass(frozen=True)
class Identities:
    """What is drawn at random or read from the clock."""

    cluster_uuid: str
    node_uuid: str
    group_uuid: str
    network_uuid: str
    now_s: float


def configuration(beginning: Beginning, ids: Identities, certificate_digest: str) -> Configuration:
    config = Configuration()
    config.header = {
        "version": CONFIG_VERSION,
        "serial_no": FIRST_SERIAL,
        "ctime": ids.now_s,
        "mtime": ids.now_s,
    }
    times: dict[str, Any] = {"ctime": ids.now_s, "mtime": ids.now_s, "serial_no": FIRST_SERIAL}
    config.put("cluster", CLUSTER_KEY, _cluster(beginning, ids, certificate_digest, times))
    node = Node(
        uuid=ids.node_uuid,
        name=beginning.node_name,
        primary_ip=beginning.primary_ip,
        secondary_ip=beginning.secondary_ip,
        group=ids.group_uuid,
        master_candidate=True,
        **times,
    )
    config.put("nodes", ids.node_uuid, node)
    talk = config.cluster.instance_communication_network
    networks = {ids.network_uuid: dict(communication.NICPARAMS)} if talk else {}
    group = NodeGroup(uuid=ids.group_uuid, name=FIRST_GROUP, networks=networks, **times)
    config.put("nodegroups", ids.group_uuid, group)
    if talk:
        config.put("networks", ids.network_uuid, replace(new_network(talk, ids.network_uuid), **times))
    return config


def _cluster(beginning: Beginning, ids: Identities, certificate_digest: str, times: dict[str, Any]) -> Cluster:
    directories: dict[str, Any] = dict(beginning.directories)
    return Cluster(
        uuid=ids.cluster_uuid,
        cluster_name=beginning.cluster_name,
        master_node=ids.node_uuid,
        master_ip=beginning.master_ip,
        master_netdev=beginning.master_netdev,
        master_netmask=beginning.master_netmask,
        rsahostkeypub=beginning.host_keys.get("ssh-rsa", ""),
        dsahostkeypub=beginning.host_keys.get("ssh-dss"),
        mac_prefix=beginning.mac_prefix,
        volume_group_name=beginning.volume_group,
        drbd_usermode_helper=beginning.drbd_helper,
        enabled_hypervisors=beginning.hypervisors,
        enabled_disk_templates=beginning.templates,
        primary_ip_family=FAMILY_NUMBERS[beginning.ip_version],
        ipolicy=beginning.policy,
        default_iallocator=beginning.allocator,
        modify_etc_hosts=beginning.modify_etc_hosts,
        modify_ssh_setup=beginning.modify_ssh_setup,
        ssh_key_type=beginning.ssh_key_type,
        ssh_key_bits=beginning.ssh_key_bits,
        candidate_certs={ids.node_uuid: certificate_digest},
        data_collectors=data_collectors.settings_of_a_new_cluster(),
        **directories,
        **beginning.parameters,
        **beginning.plain,
        **times,
    )


def ssconf_of(config: Configuration) -> dict[str, str]:
    """The text of every ssconf file of *config* by its key."""
    return ssconf_files(
        SsconfSource(
            cluster=config.cluster,
            nodes=config.nodes(),
            groups=config.groups(),
            networks=config.networks(),
            instance_names=[instance.name for instance in config.instances()],
        )
    )
