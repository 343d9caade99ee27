# SPDX-License-Identifier: BSD-2-Clause
"""Reading what a user asked for when creating an instance: name, disks, tags."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError, TagError, UnitParseError
from ganeti.base.names import shown
from ganeti.base.units import parse_size_mib
from ganeti.master.operations.instance.wanted.nics import check_device_names
from ganeti.model.new_disk import adopts
from ganeti.model.objects import Disk
from ganeti.model.tags import check_tag, with_tags
from ganeti.model.traits import KERNELSPACE, USERSPACE, TemplateTraits
from ganeti.ports.context import EntropyPort

MAX_DISKS = 16
MAX_DISK_MIB = 2**43 - 1
"""What fits into a file offset."""
_DISK_ACCESS = (KERNELSPACE, USERSPACE)
NAMELESS = ("", "none")
"""What is given in place of a disk's name where it is to have none."""
DISK_KEYS = frozenset({"size", "mode", "name", "spindles", "access", "format", "dev_type"})
KEYS_OF_TEMPLATES = {
    "adopt": "a volume that is there already",
    "vg": "a volume group",
    "metavg": "a volume group for metadata",
    "provider": "a provider of external storage",
}
"""What only some templates have a use for, and what each is about."""
_OWN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def check_name(name: str) -> str:
    """Give the name in lower case; raises `PrerequisiteError` for what cannot be a host name."""
    if (fault := names.instance_name_fault(name)) is not None:
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
        raise PrerequisiteError(
            f"Disk template {traits.name} has no disks: leave --disk out, or choose another with -t", WRONG_INPUT
        )
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
    own = _check_keys(index, values, traits)
    size_mib = 0 if adopts(values) and not values.get("size") else _size(index, values)
    if values.get("dev_type", traits.name) != traits.name:
        raise PrerequisiteError(
            f"Disk {index}: dev_type '{values['dev_type']}' is not possible: all disks have the instance's template",
            WRONG_INPUT,
        )
    if values.get("access", _DISK_ACCESS[0]) not in _DISK_ACCESS:
        raise PrerequisiteError(
            f"Disk {index}: access '{values['access']}' is unknown: use {' or '.join(_DISK_ACCESS)}", WRONG_INPUT
        )
    if values.get("access", traits.accesses[0]) not in traits.accesses:
        raise PrerequisiteError(
            f"Disk {index}: access {values['access']} is not possible: the hypervisor opens the disks of template "
            f"{traits.name} in one way only; leave access out",
            WRONG_INPUT,
        )
    spindles = values.get("spindles")
    if isinstance(spindles, str) and spindles.isascii() and spindles.isdecimal():
        spindles = int(spindles)  # as sizes, which commands that change disks send as they were typed
    if spindles is not None and not traits.uses_node_disk:
        raise PrerequisiteError(
            f"Disk {index}: spindles are counted with exclusive storage only, which template {traits.name} does not "
            "have: leave spindles out",
            WRONG_INPUT,
        )
    if spindles is not None and (isinstance(spindles, bool) or not isinstance(spindles, int) or spindles < 1):
        raise PrerequisiteError(f"Disk {index}: spindles must be a whole number from 1, not {spindles}", WRONG_INPUT)
    name = values.get("name")
    if name is not None and not isinstance(name, str):
        raise PrerequisiteError(f"Disk {index}: its name must be text, not {name}", WRONG_INPUT)
    mode = values.get("mode", "rw")
    if mode not in ("ro", "rw"):
        raise PrerequisiteError(f"Disk {index}: access mode '{mode}' is unknown: use ro or rw", WRONG_INPUT)
    params: dict[str, Any] = {key: values[key] for key in own}
    if "access" in values and len(traits.accesses) > 1:
        params["access"] = values["access"]
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
        name=None if name in NAMELESS else name,
        iv_name=f"disk/{index}",
        spindles=spindles,
        params=params,
        forthcoming=True,
    )


def _check_keys(index: int, values: Mapping[str, Any], traits: TemplateTraits) -> list[str]:
    """Refuse what the template has no use for; gives the keys that are parameters of the disk's own."""
    for key in sorted(set(KEYS_OF_TEMPLATES) & set(values) - set(traits.keys)):
        raise PrerequisiteError(
            f"Disk {index}: '{key}' is about {KEYS_OF_TEMPLATES[key]}, and disks of template {traits.name} have none: "
            "leave it out",
            WRONG_INPUT,
        )
    if traits.adopts_only and not adopts(values):
        raise PrerequisiteError(
            f"Disk {index}: disks of template {traits.name} are not made: name one that is there, by "
            f"--disk {index}:adopt=NAME",
            WRONG_INPUT,
        )
    known = DISK_KEYS | set(traits.keys)
    own = sorted(set(values) - known)
    if own and not traits.free_keys:
        raise PrerequisiteError(
            f"Disk {index}: unknown parameter '{shown(own[0])}': there are {', '.join(sorted(known))}", WRONG_INPUT
        )
    check_own_keys(index, {key: values[key] for key in own})
    return own


def check_own_keys(index: int, values: Mapping[str, Any]) -> None:
    """Refuse what no provider can have as a parameter."""
    for key, value in values.items():
        if not _OWN_KEY.fullmatch(key) or not isinstance(value, str | int | float):
            raise PrerequisiteError(
                f"Disk {index}: '{shown(key)}={shown(str(value))}' cannot be a parameter of a provider: its name has "
                "letters, digits and the characters _ -, and its value is text",
                WRONG_INPUT,
            )


def _size(index: int, values: Mapping[str, Any]) -> int:
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
    return size_mib
