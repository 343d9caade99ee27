# SPDX-License-Identifier: BSD-2-Clause
"""Another disk template for an instance: new disks, each a copy of an old one, which goes when both are equal."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.base.errors import INSUFFICIENT_RESOURCES, WRONG_INPUT, WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.allocators import ask_allocator
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import require_one_group
from ganeti.master.operations.instance.wanted.device_changes import DiskChanges
from ganeti.master.operations.instance.wanted.disk_places import instance_directory, place_disks
from ganeti.master.operations.instance.wanted.modification import Facts
from ganeti.model.node_calls.disks import BlockdevConvert
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Disk, Instance
from ganeti.model.placement_requests import AllocateSecondary
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort, OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.iallocator import Response, selected_nodes


def wanted_template(view: ConfigView, catalogue: Catalogue, instance: Instance, name: str) -> TemplateTraits:
    """The template that the instance is to get; raises `PrerequisiteError` where it cannot."""
    traits = catalogue.template(name)
    enabled = view.cluster.enabled_disk_templates
    if name not in enabled:
        raise PrerequisiteError(
            f"Disk template {name} is not enabled in this cluster: use one of {', '.join(enabled)}, or enable it "
            "(gnt-cluster modify --enabled-disk-templates)",
            WRONG_INPUT,
        )
    if name == view.disk_template(instance):
        raise PrerequisiteError(f"Instance {instance.name} already has disk template {name}: name another", WRONG_INPUT)
    if traits.has_disks and not traits.convertible:
        raise PrerequisiteError(
            f"Disks cannot be converted to template {name}: create an instance with it and copy the data", WRONG_INPUT
        )
    return traits


def check_stopped(view: ConfigView, instance: Instance, facts: Facts) -> None:
    """Raise `PrerequisiteError` where the disks may be in use, or a node that has them cannot be asked."""
    if instance.admin_state == "up" or instance.disks_active or facts.running is not None:
        raise PrerequisiteError(
            f"The disks of {instance.name} may be in use, so they cannot be converted: shut the instance down first "
            f"(gnt-instance shutdown {instance.name})",
            WRONG_STATE,
        )
    for uuid in view.instance_nodes(instance):
        if view.node(uuid).offline:
            raise PrerequisiteError(
                f"Node {view.node(uuid).name} of {instance.name} is offline: to convert the disks, bring it back first",
                WRONG_STATE,
            )


def nodes_of(view: ConfigView, instance: Instance, traits: TemplateTraits, secondary: str | None) -> list[str]:
    """The nodes of the new disks; a secondary is named exactly where the template has one."""
    if traits.has_secondary and secondary is None:
        raise PrerequisiteError(
            f"Disk template {traits.name} needs a secondary node: name one with --node", WRONG_INPUT
        )
    if secondary is None:
        return [instance.primary_node]
    node = view.find_node(secondary)
    if not traits.has_secondary:
        raise PrerequisiteError(
            f"Disk template {traits.name} has no secondary node: leave --node {node.name} out", WRONG_INPUT
        )
    if node.uuid == instance.primary_node:
        raise PrerequisiteError(
            f"Node {node.name} is the primary node of {instance.name}: name another secondary node", WRONG_INPUT
        )
    if not node.usable_for_instances:
        word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
        raise PrerequisiteError(f"Node {node.name} is {word}: choose another node", WRONG_STATE)
    require_one_group(view, [instance.primary_node, node.uuid])
    return [instance.primary_node, node.uuid]


def check_allocator(catalogue: Catalogue, template: str | None, secondary: str | None) -> None:
    """Raise `PrerequisiteError` where there is no secondary node to be chosen."""
    if template is None or secondary is not None or not catalogue.template(template).has_secondary:
        raise PrerequisiteError(
            "An allocator chooses the secondary node of disks that are converted to a template with two copies: name "
            "such a template (--disk-template), and leave --node out",
            WRONG_INPUT,
        )


async def chosen_secondary(
    ctx: OperationContext, view: ConfigView, instance: Instance, template: str, given: str
) -> str:
    """Ask an allocator for the secondary node; gives its name. Raises `PrerequisiteError`."""
    allocator = allocation.allocator_named(view, given)
    if not allocator:
        raise PrerequisiteError(
            "The cluster has no default allocator: name one, or a secondary node with --node", WRONG_INPUT
        )
    answer, _ = await ask_allocator(
        ctx, allocator, AllocateSecondary(name=instance.name, disk_template=template), reserve=False
    )
    refused = f"Can't compute a secondary node for {instance.name} using iallocator '{allocator}': "
    if not answer.success:
        raise PrerequisiteError(f"{refused}{answer.info or 'it gave no reason'}", INSUFFICIENT_RESOURCES)
    try:
        (name,) = selected_nodes(Response(True, "", answer.result), 1, [node.name for node in view.nodes()])
    except ParameterError as err:
        raise PrerequisiteError(f"{refused}{err}", INSUFFICIENT_RESOURCES) from err
    ctx.log.info(f"Selected the secondary node: {name}")
    return name


def converted(
    view: ConfigView,
    instance: Instance,
    traits: TemplateTraits,
    entropy: EntropyPort,
    node_uuids: list[str],
    directory: str | None,
    ext_params: Mapping[str, Any],
    *,
    force: bool,
) -> DiskChanges:
    """New disks in place of all others; without disks there is nothing to copy, so the data are lost."""
    old = view.instance_disks(instance)
    if not traits.has_disks:
        if not force:
            raise PrerequisiteError(
                f"Disk template {traits.name} has no disks, so the data of {instance.name} would be deleted: add "
                "--force if that is wanted, or keep the disks (gnt-instance modify --disk N:detach)",
                WRONG_INPUT,
            )
        return DiskChanges([], [], (), tuple(old))
    own = {key: value for key, value in ext_params.items() if key not in traits.keys}
    fresh = [_like(disk, traits, entropy, own) for disk in old]
    asked = [ext_params for _ in fresh]
    new = place_disks(
        view, fresh, asked, traits, node_uuids, instance_directory(view, traits, directory), instance.name, entropy
    )
    return DiskChanges(new, [], tuple(new), tuple(old))


def _like(disk: Disk, traits: TemplateTraits, entropy: EntropyPort, own: Mapping[str, Any]) -> Disk:
    image_format = (disk.params or {}).get("format")
    kept = {"format": image_format} if image_format in traits.formats else {}
    return Disk(
        uuid=entropy.uuid(),
        dev_type=traits.name,
        size=disk.size,
        mode=disk.mode,
        name=disk.name,
        iv_name=disk.iv_name,
        params={**kept, **own},
        forthcoming=True,
    )


async def copy_disks(ctx: OperationContext, old: Instance, spec: InstanceSpec) -> None:
    """Copy each disk of *old* to that of *spec* with the same index, on the primary node; both are closed then."""
    before = instance_spec(ctx.config.view(), ctx.catalogue, old)
    for each in (before, spec):
        plan = plan_of(ctx, each)
        await push_undo(ctx, plan.open())
        await open_disks(ctx, plan)
    await _copy(ctx, spec, before.disks)
    for each in (spec, before):
        await close_disks(ctx, each)


async def _copy(ctx: OperationContext, spec: InstanceSpec, sources: Sequence[DiskSpec]) -> None:
    for source, target in zip(sources, spec.disks, strict=True):
        ctx.log.info(f"* Copying disk {source.index} from {source.template} to {target.template}")
        await ask(ctx.nodes, spec.primary_node_uuid, BlockdevConvert(source=source, target=target, owner=spec.name))
