# SPDX-License-Identifier: BSD-2-Clause
"""What placement must know of a disk template, as traits (spec: htools, 2, 4, 9).

The only place here that names a template: allocator messages may name any of them, whatever drivers are installed.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """How instances of a template occupy nodes.

    *uses_node_disk*: its disks count against the node's free disk. *has_secondary*: it lives on two nodes.
    *movable*: balancing and relocation may move it. *evacuable*: when its node dies it can be started on any other
    node of the group from the same disks. *metadata_mib*: what each disk takes on each of its nodes beside its size.
    """

    name: str
    uses_node_disk: bool = False
    has_secondary: bool = False
    movable: bool = False
    evacuable: bool = False
    has_disks: bool = True
    metadata_mib: int = 0


_ALL = (
    TemplateTraits("diskless", evacuable=True, has_disks=False),
    TemplateTraits("file"),
    TemplateTraits("sharedfile", movable=True, evacuable=True),
    TemplateTraits("plain", uses_node_disk=True),
    TemplateTraits("blockdev", movable=True),
    TemplateTraits("drbd", uses_node_disk=True, has_secondary=True, movable=True, metadata_mib=128),
    TemplateTraits("rbd", movable=True, evacuable=True),
    TemplateTraits("ext", movable=True, evacuable=True),
    TemplateTraits("gluster", movable=True, evacuable=True),
)
TEMPLATES = {traits.name: traits for traits in _ALL}
"""By name, in the order of the built-in policy."""

PAIRED = next(traits.name for traits in _ALL if traits.has_secondary)
"""The template an instance has that is given a secondary node."""

UNSHARED = next(traits.name for traits in _ALL if traits.uses_node_disk and not traits.has_secondary)
"""The template of one copy on the node's own disk."""

_OLD_NAMES = {"drbd8": "drbd"}
TEMPLATES_BY_SPELLING = TEMPLATES | {old: TEMPLATES[new] for old, new in _OLD_NAMES.items()}
"""The same with the spellings of older releases."""


def traits_of(name: str) -> TemplateTraits | None:
    """Give the traits of template *name* (old spellings accepted), or None for an unknown one."""
    return TEMPLATES_BY_SPELLING.get(name)


def disk_space_mib(template: str, sizes_mib: Iterable[int]) -> int:
    """What disks of *sizes_mib* take on each node of an instance (S5.33: ``disk_space_total``)."""
    sizes, traits = list(sizes_mib), traits_of(template)
    return sum(sizes) + (traits.metadata_mib * len(sizes) if traits is not None else 0)
