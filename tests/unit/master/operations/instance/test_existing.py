# SPDX-License-Identifier: BSD-2-Clause
"""What is refused before anything is stopped: parameters that cut a guest off from its disks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.contract import hypervisor_world

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.instance.existing import require_visible_disks
from ganeti.model.traits import Catalogue
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor
from ganeti.node.storage.mirror.driver import MirroredDisks
from ganeti.node.storage.sharedfile import SharedFileDisks

KNOWN = Catalogue({"mirror": MirroredDisks.traits, "sharedfile": SharedFileDisks.traits}, {"kvm": KvmHypervisor.traits})


@pytest.mark.parametrize(
    ("hidden", "template", "refused"),
    [(True, "mirror", True), (False, "mirror", False), (True, "sharedfile", False)],
)
def test_an_empty_directory_and_mirrored_disks_exclude_each_other(
    tmp_path: Path, hidden: bool, template: str, refused: bool
) -> None:
    """Also where the disks are about to become mirrored ones."""
    disk = msgspec.structs.replace(hypervisor_world.disk(tmp_path / "image").spec, template=template)
    spec = msgspec.structs.replace(hypervisor_world.instance("kvm"), disks=[disk])
    spec = msgspec.structs.replace(spec, hvparams=spec.hvparams | {"use_chroot": hidden})
    if not refused:
        require_visible_disks(KNOWN, spec)
        return
    other = msgspec.structs.replace(spec, disks=[msgspec.structs.replace(disk, template="sharedfile")])
    for given, becomes in ((spec, None), (other, "mirror")):
        with pytest.raises(PrerequisiteError, match="cannot have use_chroot=true with disks of template mirror"):
            require_visible_disks(KNOWN, given, becomes)
