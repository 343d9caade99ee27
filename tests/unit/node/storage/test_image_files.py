# SPDX-License-Identifier: BSD-2-Clause
"""Image files where the machine lacks something; everything else is in the contract of all templates."""

from pathlib import Path

import pytest
from tests.fakes.one_node import disk_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.daemons.catalogue import build_catalogue
from ganeti.runtime import node_world


def test_a_missing_qemu_img_is_told_and_nothing_is_left(node, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(node_world, "STANDARD_PATH", str(tmp_path))
    with pytest.raises(BlockDeviceError, match=r"of 1 MiB cannot be made: qemu-img cannot be started: .* install it"):
        node.call("blockdev_create", disk=disk_spec(params={"format": "qcow2"}))
    assert list(Path(node.paths.under("/srv/disks")).iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"params": {"format": "vmdk"}}, "Disk format 'vmdk' is not known: it must be raw or qcow2"),
        ({"logical_id": ["loop"]}, r"must be \[driver, path\]"),
        ({"logical_id": ["tape", "/srv/disks/web1/x"]}, r"must be \[driver, path\]"),
    ],
)
def test_what_makes_no_sense_is_refused(node, changes, sentence: str) -> None:
    with pytest.raises(BlockDeviceError, match=sentence):
        node.call("blockdev_create", disk=disk_spec(**changes))
    assert list(Path(node.paths.under("/srv/disks")).iterdir()) == []


def test_the_catalogue_has_all_drivers_traits() -> None:
    catalogue = build_catalogue()
    assert catalogue.template("sharedfile").mirrored
    assert not catalogue.template("file").mirrored
    assert not catalogue.template("diskless").has_disks
    assert catalogue.hypervisor("fake").can_migrate
