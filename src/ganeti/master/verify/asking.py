# SPDX-License-Identifier: BSD-2-Clause
"""What each node of a group is asked in one call, and the files that must be the same everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.paths import Paths
from ganeti.master.instance_spec import disk_spec
from ganeti.master.verify import replication
from ganeti.model import inheritance
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Instance, Node, NodeGroup
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.wire.ssconf import KEYS

NEIGHBOURS = 8
"""In larger groups each node tries this many others, in a ring, so that the work grows with the nodes only."""
MASTER_IP_SCRIPT = f"{Paths().sysconf_dir}/scripts/master-ip-setup"
"""What takes the cluster's address with `use_external_mip_script`."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class FileSet:
    """Files that are compared between nodes."""

    everywhere: list[str]
    on_candidates: list[str]
    optional: list[str]
    """On all nodes or on none."""
    secret: list[str] = field(default_factory=list)
    """Those of the candidates that no other node may have."""

    def of(self, node: Node) -> list[str]:
        own = self.on_candidates if node.master_candidate else self.secret
        return [*self.everywhere, *own, *self.optional]


def files(view: ConfigView) -> FileSet:
    paths = Paths()
    everywhere = [paths.known_hosts, paths.hmac_key, paths.cluster_domain_secret, paths.authority_cert]
    everywhere += [paths.ssconf_file(key) for key in KEYS]
    on_candidates = [paths.authority_key]
    if view.cluster.modify_ssh_setup:
        on_candidates.append(f"{paths.data_dir}/ganeti_pub_keys")
    return FileSet(everywhere, on_candidates, [paths.file_storage_paths_file], [paths.authority_key])


def certificates() -> list[str]:
    """The certificate files of each node."""
    paths = Paths()
    return [paths.server_cert, paths.client_cert, paths.authority_cert]


def file_checks(view: ConfigView, node: Node) -> Plain:
    """The files of one node that are held against those of others."""
    checks: Plain = {"filelist": files(view).of(node)}
    if view.cluster.modify_ssh_setup:
        checks["ssh-keys"] = True
    return checks | {"config-copy": True} if node.master_candidate else checks


def template_unit(view: ConfigView, traits: TemplateTraits) -> Plain | None:
    """A disk template and what the cluster says where its disks are; None where there is nothing to look at."""
    setting = getattr(view.cluster, traits.setting, "") if traits.setting else ""
    return {"template": traits.name, "setting": setting} if setting else None


def storage_units(view: ConfigView, catalogue: Catalogue) -> list[Plain]:
    units = [
        template_unit(view, catalogue.template(name))
        for name in view.cluster.enabled_disk_templates
        if name in catalogue.templates
    ]
    return [unit for unit in units if unit is not None]


def disks_by_node(view: ConfigView, catalogue: Catalogue, instances: Sequence[Instance]) -> dict[str, list[DiskSpec]]:
    """By UUID of the node: the disks of *instances* that it has; those of forthcoming ones are not made yet."""
    found: dict[str, list[DiskSpec]] = {}
    for instance in instances:
        if instance.forthcoming:
            continue
        for index, disk in enumerate(view.instance_disks(instance)):
            if disk.dev_type in catalogue.templates:
                for uuid in disk.nodes or [instance.primary_node]:
                    found.setdefault(uuid, []).append(disk_spec(view, catalogue, instance, disk, index))
    return found


def bridges(view: ConfigView, group: NodeGroup, instances: Sequence[Instance]) -> list[str]:
    """Links that the instances and networks of a group, and new instances, need as bridges."""
    cluster = view.cluster
    wanted = [inheritance.cluster_nic(cluster), *group.networks.values()]
    wanted += [inheritance.nic_params(cluster, nic, group) for instance in instances for nic in instance.nics]
    return sorted({str(nic["link"]) for nic in wanted if nic.get("mode") == "bridged" and nic.get("link")})


def neighbours(nodes: Sequence[Node], index: int) -> list[Plain]:
    """The nodes that node *index* of *nodes* tries to reach."""
    others = [nodes[(index + step) % len(nodes)] for step in range(1, len(nodes))][:NEIGHBOURS]
    return [
        {"name": node.name, "primary_ip": node.primary_ip, "secondary_ip": node.secondary_ip}
        for node in sorted(others, key=lambda node: node.name)
    ]


def node_checks(
    view: ConfigView,
    catalogue: Catalogue,
    online: Sequence[Node],
    index: int,
    *,
    disks: Sequence[DiskSpec],
    links: Sequence[str],
    assess_parameters: bool,
) -> Plain:
    """The checks for node *index* of *online*, the nodes of a group that are not offline.

    It has *disks*, and needs the *links* of its group as bridges.
    """
    node = online[index]
    cluster = view.cluster
    master = view.node(cluster.master_node)
    checks: Plain = {
        "client-cert": True,
        "certificates": certificates(),
        **file_checks(view, node),
        "node-net-test": neighbours(online, index),
        "master-ip": {"name": master.name, "primary_ip": cluster.master_ip},
        "file-modes": True,
        "time": True,
        "version": True,
    }
    if cluster.use_external_mip_script and node.master_candidate:
        checks["user-scripts"] = [MASTER_IP_SCRIPT]
    if node.uuid == cluster.master_node:
        checks["oob-paths"] = _oob_programs(view)
    elif not cluster.use_external_mip_script:
        checks["held-addresses"] = [cluster.master_ip]
    if not node.vm_capable:
        return checks
    hypervisors = {
        name: _filled(view, catalogue, name) for name in cluster.enabled_hypervisors if name in catalogue.hypervisors
    }
    mine = [instance for instance in view.primary_instances(node.uuid) if not instance.forthcoming]
    units = storage_units(view, catalogue)
    checks |= {
        "bridges": links,
        "allowed-file-storage-paths": bool(units) or None,
        "storage": units,
        "replication": replication.templates(view, catalogue),
        "disks": units,
        "disk-status": disks,
        "hypervisor": hypervisors,
        "hypervisor-cautions": list(hypervisors),
        "instances": list(hypervisors),
        "hvinfo": list(hypervisors),
        "oslist": True,
    }
    if assess_parameters:
        checks["hvparms"] = [
            {"source": f"instance {instance.name}", "hypervisor": instance.hypervisor, "hvparams": hvparams}
            for instance in mine
            if instance.hypervisor in catalogue.hypervisors
            and (hvparams := inheritance.instance_hv(cluster, instance, _known(catalogue, instance.hypervisor)))
        ]
    return checks


def _known(catalogue: Catalogue, hypervisor: str) -> tuple[Any, ...]:
    return catalogue.hypervisor(hypervisor).parameters


def _filled(view: ConfigView, catalogue: Catalogue, name: str) -> Plain:
    return catalogue.hv_defaults(name) | view.cluster.hvparams.get(name, {})


def _oob_programs(view: ConfigView) -> list[str]:
    nodes = [node for node in view.nodes() if view.get("nodegroups", node.group) is not None]
    programs = {inheritance.node_nd(view, node)["oob_program"] for node in nodes}
    return sorted(program for program in programs if program)
