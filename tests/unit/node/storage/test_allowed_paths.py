# SPDX-License-Identifier: BSD-2-Clause
"""Where disks may not lie, whatever the administrator lists."""

import pytest

from ganeti.node.storage.allowed_paths import forbidden, malformed


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/bin",
        "/etc",
        "/etc/ganeti",
        "/usr",
        "/usr/lib/x",
        "/var",
        "/var/lib/ganeti",
        "/var/log/x",
        "/dev/shm",
        "/root/x",
        "/proc/1",
        "/home",
        "/srv",
        "/tmp",
        "/run/x",
        "/lib64",
    ],
)
def test_directories_of_the_system_are_refused(path: str) -> None:
    assert forbidden(path) is not None


@pytest.mark.parametrize("path", ["/srv/ganeti/file-storage", "/var/lib/libvirt", "/mnt/x", "/binary", "/data"])
def test_directories_of_ones_own_are_fine(path: str) -> None:
    assert forbidden(path) is None


@pytest.mark.parametrize("path", ["srv/x", "", "/srv/../etc", "/srv/./x", "/srv//x", "//srv/x", "/srv/x/", "/srv/x\n"])
def test_other_spellings_are_refused(path: str) -> None:
    assert malformed(path) is not None
