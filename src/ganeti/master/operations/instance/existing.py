# SPDX-License-Identifier: BSD-2-Clause
"""What operations on an existing instance have in common: its locks, its reachability."""

from collections.abc import Iterable

from ganeti.base.errors import (
    ENVIRONMENT_ERROR,
    WRONG_INPUT,
    WRONG_STATE,
    BlockDeviceError,
    HypervisorError,
    NodeUnreachableError,
    ParameterError,
    PrerequisiteError,
)
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.lock_plans import plan
from ganeti.model.locks import LockPlan, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.disks import BlockdevCheckNew
from ganeti.model.node_calls.instances import FoundInstance, HypervisorValidateParams, InstanceInfo
from ganeti.model.node_calls.node import BridgesExist, Version
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import OF_BACKUP, Instance
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


def instance_and_nodes(view: ConfigView, name: str, *more_nodes: str, shared: bool = False) -> LockPlan:
    """The instance exclusively, its nodes (and more) shared and their resources exclusively."""
    instance = view.find_instance(name)
    nodes = dict.fromkeys([*view.instance_nodes(instance), *more_nodes])
    if shared:
        return plan(shared=[instance_lock(instance.name), *(node_lock(uuid) for uuid in nodes)])
    return plan(
        shared=[node_lock(uuid) for uuid in nodes],
        exclusive=[instance_lock(instance.name), *(node_res_lock(uuid) for uuid in nodes)],
    )


def wrong_input(err: ParameterError) -> PrerequisiteError:
    return PrerequisiteError(str(err), WRONG_INPUT)


def require_complete(instance: Instance, deed: str, *, reverting: bool = False) -> None:
    """Refuse an instance without disks, and unless *reverting* one whose disks hold states of different moments."""
    if instance.forthcoming:
        raise PrerequisiteError(f"Instance {instance.name} is only reserved so far: it cannot be {deed}", WRONG_STATE)
    if not reverting:
        require_one_moment(instance)


def require_one_moment(instance: Instance) -> None:
    """Raise `PrerequisiteError` where a revert to a snapshot, or a restore in place, was interrupted."""
    if instance.reverting is None:
        return
    if instance.reverting.startswith(OF_BACKUP):
        backup = instance.reverting.removeprefix(OF_BACKUP)
        raise PrerequisiteError(
            f"The restore of backup {backup} was interrupted, so the disks of {instance.name} hold neither what they "
            f"had nor the backup: repeat it (gnt-backup restore --in-place --backup {backup} {instance.name}), "
            "or restore another backup in place",
            WRONG_STATE,
        )
    raise PrerequisiteError(
        f"Going back to snapshot {instance.reverting} was interrupted, so the disks of {instance.name} may hold "
        f"states of different moments: complete it (gnt-instance snapshot revert {instance.name} "
        f"{instance.reverting}), or revert to another snapshot",
        WRONG_STATE,
    )


async def guest_on_primary(
    ctx: OperationContext, view: ConfigView, instance: Instance, why: str
) -> FoundInstance | None:
    """The guest as its primary node knows it, None where it does not run; *why* says what an offline node prevents."""
    require_online(view, instance.primary_node, why)
    spec = instance_spec(view, ctx.catalogue, instance)
    return await ask(ctx.nodes, instance.primary_node, InstanceInfo(instance=spec))


def require_stopped(instance: Instance, running: FoundInstance | None, deed: str) -> None:
    """Refuse an instance that should run, or that does as its primary node says."""
    if instance.admin_state == "up" or running is not None:
        state = "runs" if running is not None else "should be running"
        raise PrerequisiteError(
            f"Instance {instance.name} {state}, so it cannot be {deed}: shut it down first "
            f"(gnt-instance shutdown {instance.name})",
            WRONG_STATE,
        )


def require_one_group(view: ConfigView, nodes: Iterable[str]) -> None:
    """Refuse nodes (UUIDs) of an instance that are in several node groups (S1.24, S1.27)."""
    if len({view.node(uuid).group for uuid in nodes}) > 1:
        raise PrerequisiteError("Primary and secondary node must be in the same node group", WRONG_INPUT)


def tell_needless(ctx: OperationContext, spec: InstanceSpec, option: str) -> None:
    """Say that *option*, which is about secondary nodes, has nothing to act on."""
    if not spec.secondary_nodes:
        ctx.log.info(f"Instance {spec.name} has no secondary node: {option} changes nothing")


def require_online(view: ConfigView, node_uuid: str, why: str) -> None:
    node = view.node(node_uuid)
    if node.offline:
        raise PrerequisiteError(f"Node {node.name} is marked offline: {why}", WRONG_STATE)


async def require_bridges(ctx: OperationContext, node_uuid: str, spec: InstanceSpec) -> None:
    """Refuse a node that lacks a bridge the instance is to be attached to, before anything is made or stopped."""
    wanted = sorted({nic.link for nic in spec.nics if nic.mode == "bridged" and nic.link})
    missing = await ask(ctx.nodes, node_uuid, BridgesExist(bridges=wanted)) if wanted else []
    if missing:
        name = ctx.config.view().node(node_uuid).name
        raise PrerequisiteError(
            f"Missing bridges on node {name}: {', '.join(missing)}, which instance {spec.name} is to be attached to. "
            "Make them there, or choose another node or link",
            ENVIRONMENT_ERROR,
        )


async def require_hvparams(
    ctx: OperationContext, spec: InstanceSpec, *, node_uuid: str | None = None, starts: bool = False
) -> None:
    """Refuse hypervisor parameters that the primary node cannot use, such as files that it does not have.

    Or another node; with *starts* also where the guest would not start there, before it is stopped for that.
    """
    require_visible_disks(ctx.catalogue, spec)
    vcpus = int(spec.beparams["vcpus"])
    try:
        request = HypervisorValidateParams(
            hypervisor=spec.hypervisor, hvparams=spec.hvparams, vcpus=vcpus, starts=starts
        )
        await ask(ctx.nodes, node_uuid or spec.primary_node_uuid, request)
    except PrerequisiteError:
        raise
    except (ParameterError, HypervisorError) as err:
        raise PrerequisiteError(str(err), WRONG_INPUT) from err


def require_visible_disks(catalogue: Catalogue, spec: InstanceSpec, template: str | None = None) -> None:
    """Refuse a hypervisor parameter that cuts the guest off from its disks when they are to be reached again.

    With *template* its disks become those.
    """
    known = catalogue.hypervisor(spec.hypervisor).parameters
    hiding = next((each.name for each in known if each.hides_sockets and spec.hvparams.get(each.name)), None)
    templates = [template] if template else [disk.template for disk in spec.disks]
    served = next((name for name in templates if catalogue.template(name).served), None)
    if hiding and served:
        raise PrerequisiteError(
            f"{spec.name} cannot have {hiding}=true with disks of template {served}: it would lose them for ever when "
            "they grow or their storage daemon is restarted. Set it to false; security_model=pool protects as well",
            WRONG_INPUT,
        )


async def require_makeable(ctx: OperationContext, spec: InstanceSpec, disks: list[DiskSpec]) -> None:
    """Refuse new disks that only the node knows to be impossible: their undo would fail as their creation does."""
    known = ctx.catalogue.templates
    asked = [disk for disk in disks if known[disk.template].free_keys]
    if not asked:
        return
    try:
        await ask(ctx.nodes, spec.primary_node_uuid, BlockdevCheckNew(disks=asked))
    except BlockDeviceError as err:
        raise PrerequisiteError(str(err), WRONG_INPUT) from err


async def reachable(ctx: OperationContext, node_uuid: str, timeout_s: float = 10.0) -> bool:
    """Whether the node's daemon answers now."""
    try:
        await ask(ctx.nodes, node_uuid, Version(), deadline_s=timeout_s)
    except NodeUnreachableError:
        return False
    except Exception as err:
        ctx.log.warning(f"Node {ctx.config.view().node(node_uuid).name} does not answer as it should: {err}")
        return False
    return True
