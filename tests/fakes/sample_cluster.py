# SPDX-License-Identifier: BSD-2-Clause
"""A small cluster in memory for tests: three nodes, two groups' worth of room, drivers' traits without drivers."""

from __future__ import annotations

from itertools import count

from ganeti.model.configuration import Configuration
from ganeti.model.ipolicy import full_policy
from ganeti.model.objects import CLUSTER_KEY, Cluster, Disk, Instance, Nic, Node, NodeGroup
from ganeti.model.parameters import Parameter
from ganeti.model.traits import Catalogue, HypervisorTraits, TemplateTraits

SHARED_DIR = "/srv/ganeti/shared-file-storage"
LOCAL_DIR = "/srv/ganeti/file-storage"


def catalogue() -> Catalogue:
    """Traits of invented drivers: the operations must not know real names."""
    templates = (
        TemplateTraits("none", "none", has_disks=False, shared=True, growable=False),
        TemplateTraits(
            "local",
            "local",
            directory_based=True,
            directory_setting="file_storage_dir",
            formats=("raw", "qcow2"),
            logical_id_driver="loop",
            checks_free_space=True,
            copyable=True,
        ),
        TemplateTraits(
            "common",
            "common",
            shared=True,
            directory_based=True,
            directory_setting="shared_file_storage_dir",
            formats=("raw", "qcow2"),
            logical_id_driver="loop",
        ),
    )
    hypervisor = HypervisorTraits(
        "pretend",
        parameters=(Parameter("kernel", "string", "/boot/k"), Parameter("port", "int", 80, cluster_only=True)),
        can_migrate=True,
        needs_network_port=True,
    )
    return Catalogue({traits.name: traits for traits in templates}, {"pretend": hypervisor}, ("diagnose",))


def configuration(nodes: int = 3) -> Configuration:
    config = Configuration()
    config.put(
        "cluster",
        CLUSTER_KEY,
        Cluster(
            uuid="cluster-uuid",
            cluster_name="cluster",
            master_node="uuid-node1",
            master_ip="10.77.0.100",
            master_netdev="eth0",
            enabled_hypervisors=["pretend"],
            enabled_disk_templates=["common", "local", "none"],
            shared_file_storage_dir=SHARED_DIR,
            file_storage_dir=LOCAL_DIR,
            default_iallocator="hail",
            ipolicy=full_policy(["common", "local", "none"])
            | {
                "minmax": [
                    {
                        "min": {"memory-size": 1, "cpu-count": 1, "disk-count": 0, "disk-size": 1},
                        "max": {"memory-size": 4096, "cpu-count": 8, "disk-count": 16, "disk-size": 1048576},
                    }
                ]
            },
        ),
    )
    config.put("nodegroups", "uuid-group1", NodeGroup(uuid="uuid-group1", name="default"))
    for index in range(1, nodes + 1):
        config.put(
            "nodes",
            f"uuid-node{index}",
            Node(
                uuid=f"uuid-node{index}",
                name=f"node{index}",
                primary_ip=f"10.77.0.{index}",
                secondary_ip=f"10.77.0.{index}",
                group="uuid-group1",
                master_candidate=True,
            ),
        )
    return config


_numbers = count(1)


def add_instance(
    config: Configuration, name: str, node: str = "uuid-node1", *, template: str = "common", admin_state: str = "up"
) -> Instance:
    """Put an instance with one disk and one NIC into *config*."""
    number = next(_numbers)
    disks = []
    if template != "none":
        disk = Disk(
            uuid=f"uuid-disk{number}",
            dev_type=template,
            size=64,
            iv_name="disk/0",
            nodes=[node],
            logical_id=["loop", f"{SHARED_DIR}/{name}/uuid-disk{number}.{template}.disk0"],
        )
        config.put("disks", disk.uuid, disk)
        disks.append(disk.uuid)
    instance = Instance(
        uuid=f"uuid-{name}",
        name=name,
        primary_node=node,
        os="noop+default",
        hypervisor="pretend",
        admin_state=admin_state,
        disks=disks,
        disks_active=admin_state == "up",
        nics=[Nic(uuid=f"uuid-nic{number}", mac=f"aa:00:00:00:{number // 256:02x}:{number % 256:02x}")],
    )
    config.put("instances", instance.uuid, instance)
    return instance
