# SPDX-License-Identifier: BSD-2-Clause
"""Reading what a user asked for when creating an instance: name, disks, tags."""

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError, TagError, UnitParseError
from ganeti.base.units import parse_size_mib
from ganeti.master.operations.instance.nics import check_device_names
from ganeti.model.objects import Disk
from ganeti.model.tags import check_tag, with_tags
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort

MAX_DISKS = 16
MAX_DISK_MIB = 2**43 - 1
"""What fits into a file offset."""
_DISK_ACCESS = ("kernelspace", "userspace")
_DISK_KEYS = frozenset({"size", "mode", "name", "spindles", "access", "format", "dev_type"})
_KEYS_OF_VOLUMES = frozenset({"adopt", "vg", "metavg"})
"""Of templates in volume groups, none of which is available."""


def check_name(name: str) -> str:
    """Give the name in lower case; raises `PrerequisiteError` for what cannot be a host name."""
    if (fault := names.host_name_fault(name)) is not None:
        raise PrerequisiteError(f"'{names.shown(name)}' is not a valid instance name: {fault}", WRONG_INPUT)
    return name.lower()


def check_tags(tags: Sequence[str]) -> list[str]:
    for tag in tags:
        try:
            check_tag(tag)
        except TagError as err:
            raise PrerequisiteError(
                f"'{names.shown(tag)}' is not a valid tag: use 1 to 128 letters, digits and the characters "
                ". + * / : @ _ -",
                WRONG_INPUT,
            ) from err
    return with_tags([], tags)


def read_disks(asked: Sequence[Mapping[str, Any]], traits: TemplateTraits, entropy: EntropyPort) -> list[Disk]:
    """Make disks without places yet; raises `PrerequisiteError` naming the disk and what is wrong."""
    if asked and not traits.has_disks:
        raise PrerequisiteError(f"Disk template {traits.name} has no disks: leave --disk out", WRONG_INPUT)
    if not asked and traits.has_disks:
        raise PrerequisiteError(
            f"Disk template {traits.name} needs at least one disk: add --disk 0:size=SIZE", WRONG_INPUT
        )
    if len(asked) > MAX_DISKS:
        raise PrerequisiteError(f"{len(asked)} disks are too many: an instance has at most {MAX_DISKS}", WRONG_INPUT)
    disks = [read_disk(index, values, traits, entropy) for index, values in enumerate(asked)]
    check_device_names("disk", [disk.name for disk in disks])
    return disks


def read_disk(index: int, values: Mapping[str, Any], traits: TemplateTraits, entropy: EntropyPort) -> Disk:
    if elsewhere := sorted(set(values) & _KEYS_OF_VOLUMES):
        raise PrerequisiteError(
            f"Disk {index}: '{elsewhere[0]}' is about volumes that are there already, and disks of template "
            f"{traits.name} are made: leave it out",
            WRONG_INPUT,
        )
    unknown = set(values) - _DISK_KEYS
    if unknown:
        raise PrerequisiteError(
            f"Disk {index}: unknown parameter '{sorted(unknown)[0]}': there are {', '.join(sorted(_DISK_KEYS))}",
            WRONG_INPUT,
        )
    if "size" not in values:
        raise PrerequisiteError(f"Disk {index}: the size is missing: write --disk {index}:size=SIZE", WRONG_INPUT)
    try:
        size_mib = parse_size_mib(values["size"])
    except UnitParseError as err:
        raise PrerequisiteError(f"Disk {index}: {err}", WRONG_INPUT) from err
    if size_mib <= 0:
        raise PrerequisiteError(f"Disk {index}: the size must be more than zero", WRONG_INPUT)
    if size_mib > MAX_DISK_MIB:
        raise PrerequisiteError(f"Disk {index}: a disk can have {MAX_DISK_MIB} MiB at most", WRONG_INPUT)
    if values.get("dev_type", traits.name) != traits.name:
        raise PrerequisiteError(
            f"Disk {index}: dev_type '{values['dev_type']}' is not possible: all disks have the instance's template",
            WRONG_INPUT,
        )
    if values.get("access", _DISK_ACCESS[0]) not in _DISK_ACCESS:
        raise PrerequisiteError(
            f"Disk {index}: access '{values['access']}' is unknown: use {' or '.join(_DISK_ACCESS)}", WRONG_INPUT
        )
    if values.get("access") == "userspace":
        raise PrerequisiteError(
            f"Disk {index}: access userspace is not possible: the hypervisor opens the disks of template {traits.name} "
            "in one way only; leave access out",
            WRONG_INPUT,
        )
    if values.get("spindles") is not None:
        raise PrerequisiteError(
            f"Disk {index}: spindles are counted with exclusive storage only, which template {traits.name} does not "
            "have: leave spindles out",
            WRONG_INPUT,
        )
    name = values.get("name")
    if name is not None and not isinstance(name, str):
        raise PrerequisiteError(f"Disk {index}: its name must be text, not {name}", WRONG_INPUT)
    mode = values.get("mode", "rw")
    if mode not in ("ro", "rw"):
        raise PrerequisiteError(f"Disk {index}: access mode '{mode}' is unknown: use ro or rw", WRONG_INPUT)
    params: dict[str, Any] = {}
    if "format" in values:
        if values["format"] not in traits.formats:
            allowed = ", ".join(traits.formats) or "none for this template"
            raise PrerequisiteError(
                f"Disk {index}: format '{values['format']}' is unknown: there are {allowed}", WRONG_INPUT
            )
        params["format"] = values["format"]
    return Disk(
        uuid=entropy.uuid(),
        dev_type=traits.name,
        size=size_mib,
        mode=mode,
        name=name,
        iv_name=f"disk/{index}",
        params=params or None,
        forthcoming=True,
    )


def place_disks(
    disks: Sequence[Disk],
    traits: TemplateTraits,
    node_uuids: list[str],
    directory: str,
    instance_name: str,
    first: int = 0,
) -> list[Disk]:
    """Give each disk its nodes and its logical id below the instance's directory; they are counted from *first*."""
    placed = []
    for index, disk in enumerate(disks, first):
        path = f"{directory}/{instance_name}/{disk.uuid}.{traits.name}.disk{index}"
        placed.append(replace(disk, nodes=list(node_uuids), logical_id=[traits.logical_id_driver, path]))
    return placed


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
