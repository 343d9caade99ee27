# SPDX-License-Identifier: BSD-2-Clause
"""A testbed cluster of fake nodes for system tests, and what must hold of it whenever no job runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ganeti.tools.testbed import machine, processes
from ganeti.tools.testbed.layout import Layout

WITHIN_S = 60.0
SELDOM_S = 0.2
"""Between two looks for what stays once it is there, where a look is a command: each computes for 40 ms."""
MASTER = "node1"


class FakeBed:
    """Commands on the master, and a look from outside at what lies on the nodes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def run(self, *words: str, node: str = MASTER, expect: int | None = 0, within_s: float = WITHIN_S * 2) -> str:
        """Run a command; gives both streams. *expect* is the exit status that must come."""
        done = machine.run(self.layout, node, *words, timeout_s=within_s)
        said = done.stdout + done.stderr
        assert expect is None or done.returncode == expect, f"{' '.join(words)} ended with {done.returncode}: {said}"
        return said

    def open_remote_api(self, node: str) -> None:
        """Have the remote API of a node listen on all its addresses."""
        self.run("/usr/lib/ganeti/daemon-util", "stop", "ganeti-rapi", node=node, expect=None)
        self.run("/usr/lib/ganeti/daemon-util", "start", "ganeti-rapi", "-b", self.layout.any_address, node=node)

    def submit(self, *words: str) -> int:
        """Submit a job and give its number."""
        program, command, *rest = words
        return int(self.run(program, command, "--submit", "--print-jobid", *rest).splitlines()[0])

    def job_status(self, job: int) -> str:
        path = self.data(MASTER) / f"queue/job-{job}"
        with contextlib.suppress(OSError, ValueError):
            ops = json.loads(path.read_text())["ops"]
            return str(ops[-1]["status"])
        return "unknown"

    def wait(
        self, condition: Callable[[], bool], what: str, within_s: float = WITHIN_S, *, every_s: float = 0.01
    ) -> None:
        end_s = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < end_s, f"this did not come about within {within_s:g} s: {what}"
            time.sleep(every_s)

    def data(self, node: str) -> Path:
        return self.layout.node(node).upper / "var/lib/ganeti"

    def config(self) -> dict:
        return json.loads((self.data(MASTER) / "config.data").read_text())

    def guests(self) -> dict[str, list[str]]:
        """Names of running guests, and the nodes they are on; half-made ones are shown by their state."""
        found: dict[str, list[str]] = {}
        for node in self.layout.nodes:
            listing = self.run(
                "sh", "-c", "cat /run/ganeti/fake-hypervisor/[a-z0-9]* 2>/dev/null; true", node=node.name
            )
            for guest in _objects(listing):
                state = guest["state"] + (" moving" if guest.get("moving") else "")
                found.setdefault(guest["name"], []).append(node.name if state == "running" else f"{node.name}:{state}")
        return found

    def shared_files(self) -> set[str]:
        return {str(path.relative_to(self.layout.shared)) for path in self.layout.shared.rglob("*") if path.is_file()}

    def check(self) -> None:
        """No half-made instance, disk, image lock or guest; everything agrees with the configuration."""
        config = self.config()
        nodes = {uuid: node["name"] for uuid, node in config["nodes"].items()}
        guests, wanted_files = {}, set()
        for instance in config["instances"].values():
            assert not instance.get("forthcoming"), f"{instance['name']} is half made"
            primary = nodes[instance["primary_node"]]
            if instance["admin_state"] == "up":
                guests[instance["name"]] = [primary]
            for uuid in instance["disks"]:
                path = config["disks"][uuid]["logical_id"][1].removeprefix("/srv/ganeti/shared-file-storage/")
                if path.startswith("/"):  # on its node alone
                    continue
                wanted_files.add(path)
                if instance["admin_state"] == "up":
                    wanted_files.add(f"{path}.lock")
                    holder = json.loads((self.layout.shared / f"{path}.lock").read_text())["node"]
                    assert holder == primary, f"the image lock of {instance['name']} is held by {holder}, not {primary}"
        found = self.guests()
        assert found == guests, f"guests are {found}, wanted {guests}"
        files = self.shared_files()
        assert files == wanted_files, f"files are {files}, wanted {wanted_files}"
        self.wait(self._no_lock_is_held, "no lock is held while no job runs")

    def _no_lock_is_held(self) -> bool:
        self.let_go_on()
        owners = self.run("gnt-debug", "locks", "--no-headers", "--separator=|", "-o", "name,owner")
        return all(line.rpartition("|")[2] in ("", "-") for line in owners.splitlines() if "|" in line)

    def let_go_on(self) -> None:
        """Continue every process that has stopped itself."""
        for pid in self.stopped():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def stopped(self) -> Iterator[int]:
        """Processes on the master that have stopped themselves at a pause point."""
        init = machine.running_pid(self.layout, self.layout.node(MASTER))
        for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state == "T":
                    yield pid


def _objects(text: str) -> Iterator[dict]:
    decoder = json.JSONDecoder()
    rest = text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        yield value
        rest = rest[end:].strip()
