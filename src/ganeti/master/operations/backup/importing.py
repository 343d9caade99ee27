# SPDX-License-Identifier: BSD-2-Clause
"""Making an instance from an export: finding it, what it says, filling the disks from its dumps.

What was not said about the new instance is as the export has it. MAC addresses are generated, unless it has the name
of the exported one.
"""

import posixpath
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import instance_name_fault, shown
from ganeti.master.instance_spec import with_secrets
from ganeti.master.operations.backup.between_nodes import BetweenNodes
from ganeti.master.operations.backup.dumps import check_compression, require_compression
from ganeti.master.operations.backup.transfers import Dump
from ganeti.master.operations.instance.creation.creation_parameters import CreationParameters
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of, push_undo
from ganeti.master.operations.instance.os.script_output import followed, tell_new_name
from ganeti.master.operations.parameters import NicInput
from ganeti.model.locks import instance_lock, node_lock
from ganeti.model.node_calls.exports import ExportDumpSizes, ExportInfo, ExportList, ImportDump
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Node
from ganeti.model.parameters import BACKEND_PARAMETERS
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many
from ganeti.wire.export_file import Export, decode

Request = TypeVar("Request", bound=CreationParameters)
EXPORT_DIRECTORY = "/srv/ganeti/export"
IMPORT_TIMEOUT_S = 24 * 3600.0


@dataclass(frozen=True)
class Source:
    """An export, and where it is."""

    node_uuid: str
    node_name: str
    directory: str
    export: Export

    def told(self) -> dict[str, str]:
        """What hooks are told, in the form that Ganeti has."""
        place = posixpath.join(EXPORT_DIRECTORY, self.directory)
        images = [posixpath.join(place, disk.dump) for disk in self.export.disks if disk.dump]
        return {"SRC_NODE": self.node_name, "SRC_PATH": place, "SRC_IMAGES": str(images)}


def source_locks(asked: CreationParameters, view: ConfigView) -> list[str]:
    """What is shared so that the export stays as it is."""
    if asked.mode != "import":
        return []
    name = posixpath.basename(_directory(asked))
    named = asked.src_node_uuid or asked.src_node
    nodes = [node_lock(view.find_node(named).uuid)] if named else []
    return nodes if instance_name_fault(name) is not None else [*nodes, instance_lock(name)]


async def find_source(asked: CreationParameters, ctx: OperationContext, view: ConfigView) -> Source | None:
    """The export that is to be imported, if one is; raises `PrerequisiteError` where it is not found."""
    if asked.mode == "create":
        _refuse_source(asked)
    if asked.mode != "import":
        return None
    if asked.commit or asked.forthcoming or asked.no_install:
        raise PrerequisiteError(
            "An import fills the disks at once: leave --forthcoming, --commit and --no-install out", WRONG_INPUT
        )
    check_compression(view, asked.compress)
    directory = _directory(asked)
    named = asked.src_node_uuid or asked.src_node
    node = view.find_node(named) if named else view.node(await _keeper(ctx, view, directory))
    if node.offline:
        raise PrerequisiteError(f"Node {node.name}, which keeps the export, is offline: bring it back", WRONG_STATE)
    export = decode(await ask(ctx.nodes, node.uuid, ExportInfo(directory=directory)))
    if export.compression != "none":
        raise PrerequisiteError(
            f"The dumps of export {export.name} are compressed by {export.compression}: unpack them, and write "
            "compression = none into its config.ini",
            WRONG_INPUT,
        )
    await _require_dumps(ctx, node, directory, export)
    return Source(node.uuid, node.name, directory, export)


async def _require_dumps(ctx: OperationContext, node: Node, directory: str, export: Export) -> None:
    """Raises `BlockDeviceError` for a dump that is missing, `PrerequisiteError` for one that has another size."""
    disks = [disk for disk in export.disks if disk.dump]
    request = ExportDumpSizes(directory=directory, dumps=[disk.dump for disk in disks])
    sizes = await ask(ctx.nodes, node.uuid, request)
    for disk, size in zip(disks, sizes, strict=True):
        if disk.dump_bytes not in (None, size):
            raise PrerequisiteError(
                f"The export in {shown(directory)} on {node.name} is damaged: its dump {shown(disk.dump)} has {size} "
                f"bytes, and {disk.dump_bytes} were written. Export the instance again; if you have changed the dump "
                "yourself, take its lines out of [dumps] and [dumps_sha256] in config.ini",
                WRONG_STATE,
            )


async def check_way(asked: CreationParameters, ctx: OperationContext, source: Source | None, node_uuid: str) -> None:
    """Raises `PrerequisiteError` where dumps cannot be compressed as is asked for on their way to a node."""
    if source is not None and source.node_uuid != node_uuid:
        await require_compression(ctx, ctx.config.view(), asked.compress, [source.node_uuid, node_uuid])


def filled(asked: Request, source: Source, view: ConfigView, catalogue: Catalogue) -> Request:
    """The request, with what the export says where it says nothing; raises `PrerequisiteError`."""
    export = source.export
    if asked.disks and len(asked.disks) < len(export.disks):
        raise PrerequisiteError(
            f"The export has {len(export.disks)} disks, not {len(asked.disks)}: give all of them, or none",
            WRONG_INPUT,
        )
    hypervisor = asked.hypervisor or export.hypervisor or None
    hvparams: dict[str, Any] = {}
    if hypervisor == export.hypervisor:
        own = {each.name for each in catalogue.hypervisor(hypervisor).parameters if not each.cluster_only}
        hvparams = {key: value for key, value in export.hvparams.items() if key in own}
    backend = {each.name for each in BACKEND_PARAMETERS}
    of_export = {key: value for key, value in export.beparams.items() if key in backend}
    if "memory" in asked.beparams:
        of_export = {key: value for key, value in of_export.items() if key not in ("maxmem", "minmem")}
    return replace(
        asked,
        mode="create",
        disk_template=asked.disk_template or export.disk_template,
        os_type=asked.os_type or export.os,
        disks=asked.disks or [{"size": disk.size_mib, "name": disk.name} for disk in export.disks],
        nics=asked.nics or [_nic(nic, keeps_mac=asked.instance_name == export.name) for nic in export.nics],
        hypervisor=hypervisor,
        hvparams=hvparams | asked.hvparams,
        beparams=of_export | asked.beparams,
        osparams=export.osparams | asked.osparams,
        osparams_private=export.osparams_private | (asked.osparams_private or {}),
        tags=asked.tags or export.tags,
    )


async def import_disks(
    ctx: OperationContext, spec: InstanceSpec, source: Source, compress: str, secret: dict[str, Any], debug: int
) -> None:
    """Open the disks, with their undo, and have the OS fill them from the dumps; they stay open.

    The rename script runs under the old name, too, as in Ganeti: addresses of the NICs may have changed.
    """
    plan = plan_of(ctx, spec)
    await push_undo(ctx, plan.open())
    await open_disks(ctx, plan)
    full = with_secrets(spec, secret)
    if spec.os.partition("+")[0] != source.export.os.partition("+")[0]:
        ctx.log.warning(
            f"The dumps were made by OS '{source.export.os}' and are read by '{spec.os}', as was asked for: look "
            f"whether {spec.name} starts"
        )
    ctx.log.info("* running the instance OS import scripts...")
    dumps = {index: disk.dump for index, disk in enumerate(source.export.disks) if disk.dump}
    for index in range(len(source.export.disks)):
        if index not in dumps:
            ctx.log.warning(f"The export has no dump of disk {index}: it stays empty")
        elif spec.disks[index].size_mib < source.export.disks[index].size_mib:
            sizes = f"{spec.disks[index].size_mib} MiB, and was exported with {source.export.disks[index].size_mib}"
            ctx.log.warning(f"Disk {index} has {sizes}: look whether the OS has put everything onto it")
    if source.node_uuid == spec.primary_node_uuid:
        for index, dump in dumps.items():
            request = ImportDump(instance=full, index=index, directory=source.directory, dump=dump, debug=debug)
            await _run(ctx, spec.primary_node_uuid, request)
    elif dumps:
        way = BetweenNodes(
            ctx, source.node_uuid, spec.primary_node_uuid, compress, debug, f"import of {spec.uuid} from a node"
        )
        for index, dump in dumps.items():
            ctx.log.info(f"Copying the dump of disk {index} from {source.node_name}")
            await way.carry(spec, index, dump=Dump(source.directory, dump), receiver_spec=full)
    await tell_new_name(ctx, full, source.export.name, debug)


async def _run(ctx: OperationContext, node_uuid: str, request: ImportDump) -> None:
    await followed(
        ctx,
        node_uuid,
        lambda token: ask(ctx.nodes, node_uuid, replace(request, token=token), deadline_s=IMPORT_TIMEOUT_S),
        until_cancelled=True,
    )


def _refuse_source(asked: CreationParameters) -> None:
    """What is about an export has nothing to act on."""
    for name in ("src_node", "src_node_uuid", "src_path", "compress"):
        value = getattr(asked, name)
        if value not in (None, "none"):
            raise PrerequisiteError(
                f"{name} '{shown(value)}' is about importing an instance: leave it out, or use mode import", WRONG_INPUT
            )


def _directory(asked: CreationParameters) -> str:
    return (asked.src_path or asked.instance_name).rstrip("/")


async def _keeper(ctx: OperationContext, view: ConfigView, directory: str) -> str:
    """The uuid of the node with the export."""
    name = posixpath.basename(directory)
    nodes = [node.uuid for node in view.nodes() if not node.offline]
    answers = await ask_many(ctx.nodes, nodes, ExportList())
    for answer in answers:
        if answer.error is None and name in answer.value:
            return answer.node_uuid
    raise PrerequisiteError(
        f"No node keeps an export '{name}': see gnt-backup list, and name it with --src-dir", UNKNOWN_ENTITY
    )


def _nic(exported: dict[str, str], *, keeps_mac: bool) -> NicInput:
    """A NIC in a network takes mode, link and VLAN from there."""
    own = ("ip", "name", "network") if "network" in exported else ("ip", "name", "mode", "link", "vlan")
    values = {key: exported[key] for key in own if key in exported}
    if keeps_mac and "mac" in exported:
        values["mac"] = exported["mac"]
    return NicInput(**values)
