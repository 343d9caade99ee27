# SPDX-License-Identifier: BSD-2-Clause
"""Where the disks of an instance go: their nodes, and logical ids as their template names them. Pure."""

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.instance_spec import FORMAT, uses_exclusively
from ganeti.model import inheritance
from ganeti.model.new_disk import NewDisk, Part
from ganeti.model.objects import Disk
from ganeti.model.templates import UNSHARED
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort

_SECRET_BYTES = 20


def new_disk(
    view: ConfigView,
    disk: Disk,
    asked: Mapping[str, Any],
    traits: TemplateTraits,
    node_uuids: Sequence[str],
    directory: str,
    instance_name: str,
    index: int,
    entropy: EntropyPort | None = None,
) -> NewDisk:
    """All that a template may build the logical id of *disk* from."""
    group = view.group(view.node(node_uuids[0]).group)
    return NewDisk(
        template=traits.name,
        uuid=disk.uuid,
        index=index,
        instance_name=instance_name,
        directory=directory,
        volume_group=view.cluster.volume_group_name or "",
        asked=asked,
        params=inheritance.disk_params(view.cluster, group, traits.name, traits.parameters) | (disk.params or {}),
        size_mib=disk.size,
        node_uuids=tuple(node_uuids),
        secret=entropy.token(_SECRET_BYTES).hex() if traits.has_secret and entropy is not None else "",
    )


def require_exclusive_storage(view: ConfigView, index: int, node_uuid: str) -> None:
    """Raise `PrerequisiteError` where a disk whose spindles were named would be on a node that counts none."""
    if not uses_exclusively(view, node_uuid):
        raise PrerequisiteError(
            f"Disk {index}: spindles are counted with exclusive storage only, which node {view.node(node_uuid).name} "
            "does not have: leave spindles out",
            WRONG_INPUT,
        )


def _refuse_exclusive_storage(view: ConfigView, traits: TemplateTraits, node_uuids: Sequence[str]) -> None:
    """Raise `PrerequisiteError` for mirrored volumes: their metadata would take a whole physical volume, too."""
    if not (traits.uses_node_disk and traits.has_secondary):
        return
    for uuid in node_uuids:
        if uses_exclusively(view, uuid):
            raise PrerequisiteError(
                f"Disk template {traits.name} is not possible on node {view.node(uuid).name}, which has exclusive "
                f"storage: use {UNSHARED}, or other nodes",
                WRONG_STATE,
            )


def place_disks(
    view: ConfigView,
    disks: Sequence[Disk],
    asked: Sequence[Mapping[str, Any]],
    traits: TemplateTraits,
    node_uuids: list[str],
    directory: str,
    instance_name: str,
    entropy: EntropyPort,
    first: int = 0,
) -> list[Disk]:
    """Give each disk its nodes and its logical id; they are counted from *first*.

    *asked* is what the user said of each. Raises `PrerequisiteError` where the template lacks something in it.
    """
    _refuse_exclusive_storage(view, traits, node_uuids)
    placed = []
    for index, (disk, values) in enumerate(zip(disks, asked, strict=True), first):
        if disk.spindles is not None:
            require_exclusive_storage(view, index, node_uuids[0])
        new = new_disk(view, disk, values, traits, node_uuids, directory, instance_name, index, entropy)
        parts = [_part(disk, part, node_uuids, entropy) for part in traits.parts(new)] if traits.parts else []
        placed.append(
            replace(
                disk,
                params=_noted(new, disk, traits),
                nodes=list(node_uuids),
                logical_id=_logical_id(new, traits),
                children=parts,
                generation=0 if traits.counts_generations else None,
            )
        )
    return placed


def _noted(new: NewDisk, disk: Disk, traits: TemplateTraits) -> dict[str, Any] | None:
    """With the format of its image, where that is not the one that a disk without a note has."""
    image_format = new.params.get(FORMAT)
    if not traits.formats or image_format in (None, traits.formats[0]):
        return disk.params
    return {**(disk.params or {}), FORMAT: image_format}


def _part(disk: Disk, part: Part, node_uuids: Sequence[str], entropy: EntropyPort) -> Disk:
    return Disk(
        uuid=entropy.uuid(),
        dev_type=part.template,
        logical_id=part.logical_id,
        size=part.size_mib,
        mode=disk.mode,
        nodes=list(node_uuids),
        params={},
    )


def _logical_id(new: NewDisk, traits: TemplateTraits) -> list[Any]:
    if traits.naming is not None:
        return traits.naming(new)
    return [traits.logical_id_driver, f"{new.directory}/{new.instance_name}/{new.name}"]


def instance_directory(view: ConfigView, traits: TemplateTraits, asked: str | None) -> str:
    """The directory that holds the instance directories; *asked* is a relative part below the cluster's."""
    base: str = getattr(view.cluster, traits.directory_setting) if traits.directory_setting else ""
    if asked is None:
        return base
    if (fault := names.relative_path_fault(asked)) is not None:
        raise PrerequisiteError(
            f"File storage directory '{names.shown(asked)}' must be relative to the cluster's ({base}) and stay below "
            f"it: {fault}",
            WRONG_INPUT,
        )
    return os.path.normpath(f"{base}/{asked}")
