# SPDX-License-Identifier: BSD-2-Clause
"""Which hypervisors and disk templates a cluster enables, and where its disks lie: what instances and nodes allow."""

from collections.abc import Iterable, Sequence

from ganeti.base import names
from ganeti.base.errors import WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.base.natural import natural_key
from ganeti.model import cluster_values, inheritance
from ganeti.model.node_calls.daemons import NodeEnsureDaemon
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.node_calls.verify import NodeChecks, NodeFindings, NodeVerify, ReplicationFound
from ganeti.model.objects import Cluster
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many

SHOWN_MAX = 5
"""Names in an error message."""


def checked_hypervisors(view: ConfigView, names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Give the names of hypervisors to enable; one that instances use stays.

    Raises `ParameterError`, and `PrerequisiteError` for one in use.
    """
    cluster_values.known_names(names, "hypervisor", catalogue.hypervisors)
    for gone in set(view.cluster.enabled_hypervisors) - set(names):
        _refuse_used(
            f"hypervisor {gone}", [instance.name for instance in view.instances() if instance.hypervisor == gone]
        )
    return list(names)


def checked_templates(view: ConfigView, names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Give the names of disk templates to enable; one that instances have stays. Raises as `checked_hypervisors`."""
    cluster_values.known_names(names, "disk template", catalogue.templates)
    for gone in set(view.cluster.enabled_disk_templates) - set(names):
        _refuse_used(
            f"disk template {gone}", [each.name for each in view.instances() if view.disk_template(each) == gone]
        )
    return list(names)


def check_policies(view: ConfigView, cluster: Cluster) -> None:
    """Refuse templates that are disabled and that a policy still allows; raises `ParameterError`."""
    policies = [("the cluster", cluster.ipolicy)]
    policies += [(f"node group {group.name}", group.ipolicy) for group in view.groups()]
    for whose, policy in policies:
        if left := [name for name in policy.get("disk-templates", []) if name not in cluster.enabled_disk_templates]:
            raise ParameterError(
                f"The instance policy of {whose} allows {', '.join(left)}, which would be disabled: change it as well, "
                "with --ipolicy-disk-templates"
            )


def check_directories(cluster: Cluster, catalogue: Catalogue) -> None:
    """Refuse that an enabled template has nowhere to put its disks; raises `ParameterError`."""
    for name in cluster.enabled_disk_templates:
        setting = catalogue.template(name).setting if name in catalogue.templates else ""
        if setting and not getattr(cluster, setting):
            raise ParameterError(
                f"The disk template {name} is enabled and needs {setting}: set it, or disable the template"
            )


def checked_directory(setting: str, path: str) -> str:
    """Give *path* as the cluster keeps it, empty for none; raises `ParameterError`."""
    return cluster_values.storage_directory(setting, path) if path else ""


def checked_helper(path: str) -> str | None:
    """Give *path* as the cluster keeps it, null for none; raises `ParameterError`."""
    if path and (fault := names.absolute_path_fault(path)) is not None:
        raise ParameterError(f"The helper '{names.shown(path)}' cannot be one: {fault}")
    return path or None


def _other_helpers(node: str, parts: Iterable[ReplicationFound], wanted: str) -> list[str]:
    return [
        f"Node {node} has drbd helper {part.found.helper}, not {wanted}: load its kernel module so"
        if part.found is not None
        else part.error
        for part in parts
        if part.found is None or part.found.helper != wanted
    ]


async def node_problems(ctx: OperationContext, old: Cluster, new: Cluster) -> list[str]:
    """Say why nodes cannot use what *new* enables and *old* does not: places of disks, hypervisors."""
    catalogue, view = ctx.catalogue, ctx.config.view()
    units = [
        {"template": name, "setting": getattr(new, setting)}
        for name in new.enabled_disk_templates
        if (setting := catalogue.template(name).setting) and getattr(new, setting)
        if name not in old.enabled_disk_templates or getattr(new, setting) != getattr(old, setting)
    ]
    hypervisors = {
        name: inheritance.cluster_hv(new, name, "", catalogue.hypervisor(name).parameters)
        for name in new.enabled_hypervisors
        if name not in old.enabled_hypervisors
    }
    helper = new.drbd_usermode_helper if new.drbd_usermode_helper != old.drbd_usermode_helper else None
    replicating = [
        name
        for name in new.enabled_disk_templates
        if helper and (traits := catalogue.template(name)).has_secondary and traits.uses_node_disk
    ]
    if not units and not hypervisors and not replicating:
        return []
    nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
    found = []
    checks = NodeChecks(
        storage=[StorageUnit(**unit) for unit in units], hypervisor=hypervisors, replication=replicating or None
    )
    for answer in await ask_many(ctx.nodes, nodes, NodeVerify(checks=checks)):
        node = view.node(answer.node_uuid).name
        if answer.error is not None:
            found.append(f"Node {node} cannot be asked: {answer.error}")
            continue
        told: NodeFindings = answer.value
        found += [f"Node {node}: the check '{key}' failed: {reason}" for key, reason in told.failures.items()]
        found += _other_helpers(node, (told.replication or {}).values(), helper or "")
        for what, sentences in [*(told.storage or {}).items(), *(told.hypervisor or {}).items()]:
            found += [f"Node {node}, {what.split(' ')[0]}: {sentence}" for sentence in sentences]
    return found


async def ensure_user_shutdown(ctx: OperationContext, old: Cluster) -> None:
    """Start or stop on each node the daemons that see users' shutdowns, where they are not wanted as under *old*."""
    view = ctx.config.view()
    before, after = _user_shutdown_daemons(old, ctx.catalogue), _user_shutdown_daemons(view.cluster, ctx.catalogue)
    nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
    for daemon in sorted(before ^ after):
        run = daemon in after
        for answer in await ask_many(ctx.nodes, nodes, NodeEnsureDaemon(daemon=daemon, run=run)):
            if answer.error is not None:
                ctx.log.warning(
                    f"Node {view.node(answer.node_uuid).name}: {daemon} was not {'started' if run else 'stopped'}: "
                    f"{answer.error}"
                )


def _user_shutdown_daemons(cluster: Cluster, catalogue: Catalogue) -> set[str]:
    enabled = cluster.enabled_hypervisors if cluster.enabled_user_shutdown else []
    traits = [catalogue.hypervisors[name] for name in enabled if name in catalogue.hypervisors]
    return {each.user_shutdown_daemon for each in traits if each.user_shutdown_daemon}


def _refuse_used(what: str, users: Sequence[str]) -> None:
    if users:
        names = sorted(users, key=natural_key)
        more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
        raise PrerequisiteError(
            f"The {what} is used by {', '.join(names[:SHOWN_MAX])}{more}: it stays enabled until they are removed or "
            "changed",
            WRONG_STATE,
        )
