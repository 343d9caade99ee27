# SPDX-License-Identifier: BSD-2-Clause
"""A testbed cluster whose nodes have a volume group, and stand-ins for the tools of LVM and DRBD that act on it.

The devices and volumes are files; what the kernel module would do is played by `tests/fakes/drbd/tool.py`, in a
directory that all nodes see.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, processes

FAKES = Path(__file__).resolve().parents[1] / "fakes"
LVM_TOOLS = ("lvchange", "lvcreate", "lvextend", "lvremove", "lvrename", "lvs", "pvs", "vgs")
DRBD_TOOLS = ("drbdsetup", "drbdmeta", "drbdadm")
SHARED = "/srv/ganeti/shared-file-storage/.module"
VERSION = "9.1.7"
_DEV = (
    "mkdir -p /run/dev/upper /run/dev/work && "
    "mount -t overlay overlay -o lowerdir=/dev,upperdir=/run/dev/upper,workdir=/run/dev/work /dev"
)


class ReplicatedBed(FakeBed):
    """Nodes that mirror volumes."""

    def give_tools(self, node: str) -> None:
        """Stand-ins in place of the tools, once for each node."""
        upper = self.layout.node(node).upper
        place = upper / "usr/lib/stand-ins"
        place.mkdir(parents=True)
        for name, source in (("lvm.py", "lvm/files.py"), ("drbd.py", "drbd/tool.py"), ("options.json",) * 2):
            source = "drbd/options.json" if name == "options.json" else source
            (place / name).write_bytes((FAKES / source).read_bytes())
            (place / name).chmod(0o755)
        settings = {"node": node, "version": VERSION, "states": f"{SHARED}/states.json", "dev": "/dev"}
        settings["volumes"] = f"{SHARED}/{node}"
        (place / "settings.json").write_text(json.dumps(settings))
        sbin = upper / "usr/sbin"
        sbin.mkdir(parents=True, exist_ok=True)
        for tools, target in ((LVM_TOOLS, "lvm.py"), (DRBD_TOOLS, "drbd.py")):
            for tool in tools:
                self.run("ln", "-sf", f"/usr/lib/stand-ins/{target}", f"/usr/sbin/{tool}", node=node)

    def give_devices(self, node: str) -> None:
        """A place for devices of its own; what it loses with its power is given again."""
        self.run("sh", "-c", _DEV, node=node)
        self.run(
            "sh",
            "-c",
            f"for each in {SHARED}/{node}/*.volume; do [ -e $each ] || continue; "
            "mkdir -p /dev/xenvg; name=$(basename $each .volume); ln -sf $each /dev/xenvg/$name; done",
            node=node,
        )

    def kill(self, node: str) -> None:
        machine.kill(self.layout, self.layout.node(node))
        (self.layout.shared / ".module" / f"off-{node}").touch()

    def start(self, node: str) -> None:
        machine.start(self.layout, self.layout.node(node))
        self.give_devices(node)
        (self.layout.shared / ".module" / f"off-{node}").unlink()
        processes.wait_for(
            lambda: not machine.run(self.layout, node, "daemon-util", "check", "ganeti-noded").returncode,
            30,
            f"the daemons of {node}",
        )

    def devices(self) -> dict[str, dict[str, dict]]:
        """What the kernel modules have, by node and resource."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.layout.shared / ".module/states.json").read_text())
        return {}

    def volumes(self, node: str) -> list[str]:
        place = self.layout.shared / ".module" / node
        return sorted(path.name.removesuffix(".volume") for path in place.glob("*.volume"))


def made(directory: Path, nodes: int, *words: str) -> ReplicatedBed:
    layout = testbed.up(directory.resolve(), nodes, "fake", watcher_interval_s=86400)
    try:
        (layout.shared / ".module").mkdir()
        cluster.create(layout, say=lambda sentence: None)
        bed = ReplicatedBed(layout)
        for node in layout.nodes:
            bed.give_tools(node.name)
            bed.give_devices(node.name)
        templates = "drbd,plain,file,diskless"
        modify = ("gnt-cluster", "modify", "--vg-name", "xenvg", "--enabled-disk-templates", templates)
        bed.run(*modify, "--ipolicy-disk-templates", templates, *words)
    except BaseException:
        testbed.down(layout)
        raise
    return bed
