# SPDX-License-Identifier: BSD-2-Clause
"""The package leaves /etc/default/ganeti to its administrator, also where another Ganeti has brought it."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[3] / "setup"
DEBIAN = 'RAPI_ARGS="-b 127.0.0.1 --require-authentication"\n'


def configure(root: Path) -> None:
    """Run the lines of postinst that are about the file."""
    lines = (SETUP / "debian/postinst").read_text()
    found = re.search(r"^  \[ -e .*?/etc/default/ganeti\"$\n", lines, flags=re.M | re.S)
    assert found, "postinst makes /etc/default/ganeti"
    for directory in ("etc/default", "usr/share/ganeti"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SETUP / "debian/default", root / "usr/share/ganeti/default")
    subprocess.run(["sh", "-ec", found[0]], env=os.environ | {"DPKG_ROOT": str(root)}, check=True)


def test_it_is_made_where_there_is_none_and_left_where_there_is(tmp_path: Path) -> None:
    place = tmp_path / "etc/default/ganeti"
    configure(tmp_path)
    assert 'RAPI_ARGS=""' in place.read_text()
    place.write_text(DEBIAN)
    configure(tmp_path)
    assert place.read_text() == DEBIAN


def build(place: Path, version: str, files: dict[str, str], conffiles: str) -> Path:
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    (place / "DEBIAN").mkdir(parents=True)
    control = f"Package: ganeti\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a test\n"
    (place / "DEBIAN/control").write_text(control)
    if conffiles:
        (place / "DEBIAN/conffiles").write_text(conffiles)
    (place / "DEBIAN").chmod(0o755)  # whatever the umask is
    package = place.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", place, package], check=True, capture_output=True)
    return package


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("dpkg") is None, reason="dpkg installs as root")
def test_dpkg_leaves_what_the_other_ganeti_brought(tmp_path: Path) -> None:
    conffiles = runpy.run_path(str(SETUP / "deb"))["CONFIGURATION"].values()
    assert "etc/default/ganeti" not in conffiles
    before = build(tmp_path / "before", "3.0.2-3", {"etc/default/ganeti": DEBIAN}, "/etc/default/ganeti\n")
    after = build(
        tmp_path / "after", "3.1.0-1", {path: "" for path in conffiles}, "".join(f"/{p}\n" for p in conffiles)
    )
    root = tmp_path / "root"
    for directory in ("info", "updates", "parts", "triggers"):
        (root / "var/lib/dpkg" / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    words = ["dpkg", f"--root={root}", "--force-unsafe-io", "--force-confnew", "-i"]
    for package in (before, after):
        subprocess.run([*words, package], check=True, capture_output=True)
    assert (root / "etc/default/ganeti").read_text() == DEBIAN
