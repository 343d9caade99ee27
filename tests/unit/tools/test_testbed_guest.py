# SPDX-License-Identifier: BSD-2-Clause
"""Building the guest: the archive the kernel unpacks, the cache, the init script's syntax."""

import os
import stat
import subprocess

from ganeti.tools.testbed import guest


def test_the_archive_unpacks_to_what_was_added(tmp_path):
    archive = guest.Archive()
    archive.add("bin", stat.S_IFDIR | 0o755)
    archive.add("bin/tool", stat.S_IFREG | 0o755, b"#!/bin/sh\n")
    archive.add("bin/alias", stat.S_IFLNK | 0o777, b"tool")
    archive.add("odd", stat.S_IFREG | 0o600, b"123")
    subprocess.run(["busybox", "cpio", "-i"], cwd=tmp_path, input=archive.finish(), check=True, capture_output=True)
    assert (tmp_path / "bin/tool").read_text() == "#!/bin/sh\n"
    assert os.access(tmp_path / "bin/tool", os.X_OK)
    assert os.readlink(tmp_path / "bin/alias") == "tool"
    assert (tmp_path / "odd").read_bytes() == b"123"


def test_the_cache_can_be_put_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert guest.find() is None
    assert guest.cache_directory() == tmp_path / "ganeti"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert guest.cache_directory() == guest.tree() / ".cache"


def test_init_is_valid_for_the_shell_that_runs_it():
    subprocess.run(["busybox", "sh", "-n", str(guest.INIT)], check=True)


def test_init_and_builder_agree_on_the_layout_of_the_disk():
    script = guest.INIT.read_text()
    assert f"ring_start={guest.RING_START_SECTOR}\n" in script
    assert f"ring_sectors={guest.RING_SECTORS}\n" in script
    assert f"skip={guest.CONFIG_SECTOR} count={guest.CONFIG_SECTORS}" in script
    assert f'"{guest.MAGIC}"' in script
