# SPDX-License-Identifier: BSD-2-Clause
"""What this program would say of another cluster, from a copy of its data directory. Read only, nothing is started."""

import os
from collections import Counter
from collections.abc import Iterator

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.natural import natural_key
from ganeti.master.config import versions
from ganeti.master.config.invariants import verify_all
from ganeti.model import inheritance
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Instance
from ganeti.node.catalogue import build_catalogue
from ganeti.tools import cfgupgrade
from ganeti.tools.take_over import findings
from ganeti.tools.take_over.unfinished_jobs import unfinished_jobs

_FILES = ("server.pem", "hmac.key", "cluster-domain-secret", "known_hosts", "ssconf_cluster_name")


def shadow(directory: str) -> tuple[list[str], bool]:
    """The lines to be shown, and whether a take-over would be refused; raises `GanetiError` for what is no copy."""
    directory = directory.rstrip("/") or "/"
    if not os.path.isdir(directory):
        raise PrerequisiteError(
            f"{directory} is no directory: name a copy of /var/lib/ganeti of a cluster's master", WRONG_INPUT
        )
    if not os.path.exists(f"{directory}/config.data"):
        raise PrerequisiteError(
            f"There is no config.data in {directory}: name a copy of /var/lib/ganeti of a cluster's master", WRONG_INPUT
        )
    plain = cfgupgrade.read(f"{directory}/config.data")
    found = versions.version_of(plain)
    changes = cfgupgrade.convert(plain, down=False)
    config, drivers = Configuration.from_plain(plain), build_catalogue()
    problems = [f"the configuration: {problem}" for problem in verify_all(config)]
    problems += findings.obstacles(config, drivers)
    problems += _jobs(directory)
    cares = findings.cares(plain, config, drivers)
    cares += [f"{name} is not in the copy" for name in _FILES if not os.path.exists(f"{directory}/{name}")]
    lines = [f"{directory}: a cluster of Ganeti {found[0]}.{found[1]}, as this program reads it; nothing was changed"]
    lines += [*_info(config), "", *_nodes(config), "", *_instances(config), ""]
    for title, sentences in (
        ("What would change in the configuration:", changes),
        ("What needs care:", cares),
        ("What speaks against a take-over:", problems),
    ):
        lines += [title, *(f"  - {sentence}" for sentence in sentences or ["nothing"])]
    return lines, bool(problems)


def _jobs(directory: str) -> list[str]:
    """A copy of a running cluster may have jobs under way; at the take-over there must be none."""
    jobs = unfinished_jobs(f"{directory}/queue")
    return [f"jobs {', '.join(map(str, jobs[:10]))} had not ended when the copy was made"] if jobs else []


def _info(config: Configuration) -> Iterator[str]:
    cluster = config.cluster
    yield f"Cluster name: {cluster.cluster_name}"
    yield f"Master node: {config.node(cluster.master_node).name}"
    yield f"Enabled hypervisors: {', '.join(cluster.enabled_hypervisors)}"
    yield f"Enabled disk templates: {', '.join(cluster.enabled_disk_templates)}"
    counts = Counter(disk.dev_type for instance in config.instances() for disk in config.instance_disks(instance))
    shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
    yield f"Nodes: {len(config.nodes())}, groups: {len(config.groups())}, instances: {len(config.instances())}"
    yield f"Disks: {shown}"


def _nodes(config: Configuration) -> list[str]:
    rows: list[tuple[str, ...]] = [("Node", "Group", "Role", "Pinst", "Sinst")]
    primaries = Counter(instance.primary_node for instance in config.instances())
    secondaries = Counter(
        uuid
        for instance in config.instances()
        for uuid in {uuid for disk in config.instance_disks(instance) for uuid in disk.nodes} - {instance.primary_node}
    )
    for node in config.nodes():
        role = "master" if node.uuid == config.cluster.master_node else ""
        role = role or ("offline" if node.offline else "drained" if node.drained else "")
        role = role or ("candidate" if node.master_candidate else "regular")
        group = config.group(node.group).name
        rows.append((node.name, group, role, str(primaries[node.uuid]), str(secondaries[node.uuid])))
    return _table(rows)


def _instances(config: Configuration) -> list[str]:
    rows: list[tuple[str, ...]] = [("Instance", "Hypervisor", "OS", "Primary_node", "Admin", "Memory", "Disks")]
    for instance in sorted(config.instances(), key=lambda instance: natural_key(instance.name)):
        memory = inheritance.instance_be(config.cluster, instance)["maxmem"]
        disks = config.instance_disks(instance)
        sizes = "+".join(f"{disk.size}M" for disk in disks) or "-"
        template = disks[0].dev_type if disks else "diskless"
        primary = config.node(instance.primary_node).name
        rows.append(
            (
                *_name(instance),
                primary,
                instance.admin_state,
                f"{memory}M",
                f"{template} {sizes}" if disks else template,
            )
        )
    return _table(rows)


def _name(instance: Instance) -> tuple[str, str, str]:
    return instance.name, instance.hypervisor, instance.os


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
