# SPDX-License-Identifier: BSD-2-Clause
"""Whose files are whose: only where the package is installed, and nothing is done for others."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from ganeti.base.paths import Paths
from ganeti.system import accounts


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A node whose table is in force, all names in it being those of the user who runs the test."""
    found = Paths(str(tmp_path))
    monkeypatch.setattr(accounts, "are_used", lambda root: True)
    monkeypatch.setattr(accounts, "owner_of", lambda rule: (os.getuid(), os.getgid()))
    for rule in accounts.rules(found):
        if rule.is_directory:
            os.makedirs(rule.path, exist_ok=True)
            os.chmod(rule.path, rule.mode)
    return found


def test_below_a_root_directory_nobody_has_a_user() -> None:
    assert accounts.are_used("/srv/bed/node1") is False


def test_files_that_more_can_read_are_named(paths: Paths) -> None:
    assert accounts.too_open(paths) == []
    Path(paths.hmac_key).touch()
    os.chmod(paths.hmac_key, 0o444)
    Path(paths.server_cert).touch()
    os.chmod(paths.server_cert, 0o400)
    assert accounts.too_open(paths) == [f"{paths.hmac_key} (-r--r--r--, owner {os.getuid()}:{os.getgid()})"]


def test_a_directory_that_lost_its_sticky_bit_is_named(paths: Paths) -> None:
    os.chmod(paths.log_dir, 0o770)
    assert accounts.too_open(paths) == [f"{paths.log_dir} (drwxrwx---, owner {os.getuid()}:{os.getgid()})"]


def test_where_several_users_write_nobody_takes_the_name_of_roots_directory() -> None:
    found = {rule.path: rule for rule in accounts.rules(Paths()) if rule.is_directory}
    for place in ("/run/ganeti", "/var/log/ganeti"):
        assert found[place].mode & stat.S_ISVTX
    for name in ("backup-chains", "extstorage", "held-images", "kvm-hypervisor", "mirror", "node-calls", "shown"):
        assert found[f"/run/ganeti/{name}"].user == accounts.ROOT


def test_a_group_is_not_given_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, bool]] = []
    monkeypatch.setattr(accounts, "are_used", lambda root: True)
    monkeypatch.setattr("grp.getgrnam", lambda name: SimpleNamespace(gr_gid=7))
    monkeypatch.setattr(os, "chown", lambda path, *owner, follow_symlinks=True: given.append((path, follow_symlinks)))
    monkeypatch.setattr(os, "fchown", lambda descriptor, *owner: given.append((descriptor, False)))
    accounts.give_group("/run/ganeti/ganeti-noded.probes", accounts.MONITORING)
    accounts.give_group("/var/log/ganeti/node-daemon.log", accounts.DAEMONS, 5)
    assert given == [("/run/ganeti/ganeti-noded.probes", False), (5, False)]


def test_a_file_that_root_wrote_gets_the_owner_of_the_table(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mine = os.getuid(), os.getgid()
    assert accounts.owner_for(paths.hmac_key, paths) == mine
    assert accounts.owner_for(paths.former_client_cert("1700000000"), paths) == mine
    assert accounts.owner_for(f"{paths.data_dir}/other", paths) is None


def test_every_user_of_a_daemon_is_one_the_package_makes() -> None:
    script = (Path(__file__).resolve().parents[3] / "setup/debian/postinst").read_text()
    for user in accounts.USER_OF.values():
        assert f" {user} " in script
    for rule in accounts.rules(Paths()):
        for name in (rule.user, rule.group):
            assert name in ("", accounts.ROOT) or name in script, rule


def test_logs_are_rotated_in_a_directory_that_the_daemons_may_write() -> None:
    """As root and the directory's group; logrotate skips it without these words (seen with logrotate 3.21)."""
    tree = Path(__file__).resolve().parents[3]
    words = (tree / "setup/debian/logrotate").read_text().split("\n")
    assert f"  su {accounts.ROOT} {accounts.DAEMONS}" in words
