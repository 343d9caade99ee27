# SPDX-License-Identifier: BSD-2-Clause
"""The disk templates of 3.1 and their traits, by name: the only table of them.

Drivers take their row and add what only they know. Placement and its programs work on it alone, since a cluster they
are asked about may have templates that are not installed here (spec: opcodes, 8; htools, 2, 4, 9).
"""

from collections.abc import Iterable
from typing import Any

from ganeti.model.traits import USERSPACE, VOLUME_GROUP, TemplateTraits

NO_DISKS = "diskless"
"""Template of an instance without disks: the one template that is told by the absence of something."""
OLD_NAMES = {"lvm": "plain", "drbd8": "drbd"}
"""What configurations before 2.12 call the type of a disk."""

_OF_3_1 = (
    TemplateTraits(
        NO_DISKS, "diskless", has_disks=False, shared=True, evacuable=True, growable=False, convertible=False
    ),
    TemplateTraits(
        "file",
        "file",
        copyable=True,
        directory_based=True,
        directory_setting="file_storage_dir",
        new_disks_are_zeros=True,
    ),
    TemplateTraits(
        "sharedfile",
        "sharedfile",
        shared=True,
        evacuable=True,
        directory_based=True,
        directory_setting="shared_file_storage_dir",
        new_disks_are_zeros=True,
    ),
    TemplateTraits("plain", VOLUME_GROUP, copyable=True, checks_free_space=True, id_words=("VG", "ID")),
    TemplateTraits("blockdev", "blockdev", shared=True, growable=False, convertible=False),
    TemplateTraits("drbd", VOLUME_GROUP, node_count=2, checks_free_space=True, metadata_mib=128),
    TemplateTraits("rbd", "rados", shared=True, evacuable=True, new_disks_are_zeros=True),
    TemplateTraits("ext", "ext", shared=True, evacuable=True, id_words=("PROVIDER", "ID")),
    TemplateTraits(
        "gluster",
        "gluster",
        shared=True,
        evacuable=True,
        directory_based=True,
        directory_setting="gluster_storage_dir",
        new_disks_are_zeros=True,
    ),
)
_NOT_IN_3_1 = (
    TemplateTraits(
        "mirror",
        "file",
        node_count=2,
        directory_based=True,
        directory_setting="file_storage_dir",
        new_disks_are_zeros=True,
    ),
)
TEMPLATES = {traits.name: traits for traits in (*_OF_3_1, *_NOT_IN_3_1)}
"""By name."""

IN_BUILT_IN_POLICY = tuple(traits.name for traits in _OF_3_1)
"""Those of 3.1, in its order: what a cluster allows whose policy says nothing."""

PARAMETERS_OF_3_1: dict[str, dict[str, Any]] = {
    "blockdev": {},
    "diskless": {},
    "drbd": {
        "c-delay-target": 1,
        "c-fill-target": 0,
        "c-max-rate": 61440,
        "c-min-rate": 4096,
        "c-plan-ahead": 20,
        "data-stripes": 1,
        "disk-barriers": "n",
        "disk-custom": "",
        "dynamic-resync": False,
        "meta-barriers": False,
        "meta-stripes": 1,
        "metavg": "xenvg",
        "net-custom": "",
        "protocol": "C",
        "resync-rate": 61440,
    },
    "ext": {"access": "kernelspace"},
    "file": {},
    "gluster": {"access": "kernelspace", "host": "127.0.0.1", "port": 24007, "volume": "gv0"},
    "plain": {"stripes": 1},
    "rbd": {"access": "kernelspace", "pool": "rbd"},
    "sharedfile": {},
}
"""Disk parameters of a new cluster by template (opcodes, section 8): a `config.data` of 3.1 has all of them, whatever
is installed."""

REACHED_BY_QEMU = {"rbd": PARAMETERS_OF_3_1["rbd"] | {"access": USERSPACE}}
"""What a new cluster has otherwise than 3.1: QEMU reaches images without a module of the kernel."""

PAIRED = next(traits.name for traits in _OF_3_1 if traits.has_secondary)
"""The template an instance has that is given a secondary node."""

UNSHARED = next(traits.name for traits in _OF_3_1 if traits.uses_node_disk and not traits.has_secondary)
"""The template of one copy on the node's own disk."""

ANYWHERE = next(traits.name for traits in _OF_3_1 if traits.movable and traits.evacuable)
"""A template whose instances run on any node of the group."""

PREFERRED = (PAIRED, UNSHARED, "file", ANYWHERE, NO_DISKS)
"""What a new cluster enables, of those that are installed, the default first."""

_OLD_NAMES = {"drbd8": PAIRED}
TEMPLATES_BY_SPELLING = TEMPLATES | {old: TEMPLATES[new] for old, new in _OLD_NAMES.items()}
"""The same with the spellings of older releases."""


def traits_of(name: str) -> TemplateTraits | None:
    """Give the traits of template *name* (old spellings accepted), or None for an unknown one."""
    return TEMPLATES_BY_SPELLING.get(name)


def disk_space_mib(template: str, sizes_mib: Iterable[int]) -> int:
    """What disks of *sizes_mib* take on each node of an instance (S5.33: ``disk_space_total``)."""
    sizes, traits = list(sizes_mib), traits_of(template)
    return sum(sizes) + (traits.metadata_mib * len(sizes) if traits is not None else 0)
