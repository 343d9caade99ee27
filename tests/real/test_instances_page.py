# SPDX-License-Identifier: BSD-2-Clause
"""docs/operator/instances.md typed from its first line to its last on two nodes with real guests: each command prints
what the page says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.real.test_kvm_kills import KvmBed
from tests.real.typed_page import commands, shown

from ganeti.tools.testbed import bed, cluster

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
SLOW = "/usr/local/lib/ganeti/os/slow"
SLOW_OS = f"""
set -e
mkdir -p {SLOW}
cp -r /srv/ganeti/os/heartbeat/. {SLOW}/
sed -i '2i echo unpacking part 1; echo unpacking part 2; echo configuring' {SLOW}/create
"""


@pytest.fixture(scope="module")
def kvm_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KvmBed]:
    layout = bed.up(tmp_path_factory.mktemp("instances-page").resolve(), 2, "kvm", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = KvmBed(layout)
        for node in layout.nodes:
            found.run("sh", "-c", SLOW_OS, node=node.name)
        yield found
    finally:
        bed.down(layout)


def test_a_days_commands_print_what_the_page_says(kvm_bed: KvmBed) -> None:
    others = []
    for typed in commands("instances.md"):
        said = shown(kvm_bed.run(*typed.words))
        if said != shown(typed.prints):
            others.append(f"$ {' '.join(typed.words)}\n{said}")
        if typed.words[1] == "startup" or (typed.words[1] == "add" and "--no-start" not in typed.words):
            console = f"/var/log/ganeti/kvm/{typed.words[-1]}.serial.log"
            beats = f"grep -c '^HB ' {console} || true"
            kvm_bed.wait(lambda beats=beats: int(kvm_bed.run("sh", "-c", beats)) > 0, f"{typed.words[-1]} beats", 120)  # type: ignore[misc]
    assert not others, "printed otherwise:\n" + "\n".join(others)
    assert "ERROR" not in kvm_bed.run("gnt-cluster", "verify")
