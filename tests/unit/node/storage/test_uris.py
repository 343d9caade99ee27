# SPDX-License-Identifier: BSD-2-Clause
"""URIs of disks, as QEMU is told of them."""

from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.node.storage.uris import block_options


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("file:///srv/x", {"driver": "file", "filename": "/srv/x"}),
        (
            "nbd://san:10810/vol1",
            {"driver": "nbd", "server": {"type": "inet", "host": "san", "port": "10810"}, "export": "vol1"},
        ),
        (
            "nbd+unix:///vol1?socket=/run/s",
            {"driver": "nbd", "server": {"type": "unix", "path": "/run/s"}, "export": "vol1"},
        ),
        (
            "gluster://san/gv0/dir/x",
            {
                "driver": "gluster",
                "volume": "gv0",
                "path": "dir/x",
                "server": [{"type": "inet", "host": "san", "port": "24007"}],
            },
        ),
        (
            "iscsi://san/iqn.2001-04.com:x/3",
            {"driver": "iscsi", "transport": "tcp", "portal": "san:3260", "target": "iqn.2001-04.com:x", "lun": 3},
        ),
        (
            "iscsi://[fd77::9]:3261/iqn.2001-04.com:x/3",
            {
                "driver": "iscsi",
                "transport": "tcp",
                "portal": "[fd77::9]:3261",
                "target": "iqn.2001-04.com:x",
                "lun": 3,
            },
        ),
        (
            "nbd://[fd77::9]/vol1",
            {"driver": "nbd", "server": {"type": "inet", "host": "fd77::9", "port": "10809"}, "export": "vol1"},
        ),
        (
            "rbd:pool/image:id=admin:conf=/etc/c.conf",
            {"driver": "rbd", "pool": "pool", "image": "image", "user": "admin", "conf": "/etc/c.conf"},
        ),
        ("https://san/x", {"driver": "https", "url": "https://san/x"}),
    ],
)
def test_a_known_uri(uri: str, options: dict[str, Any]) -> None:
    assert block_options(uri) == options


@pytest.mark.parametrize("uri", ["", "x", "ftp://san/x", "nbd:", "iscsi://san/x", "rbd:pool", "nbd://san:port/x"])
def test_an_unknown_one_is_refused(uri: str) -> None:
    with pytest.raises(BlockDeviceError, match="names no disk that QEMU can open: use one of"):
        block_options(uri)
