# SPDX-License-Identifier: BSD-2-Clause
"""The story of ``make demo``: guests are placed, one moves live, a node loses power, its guests come back.

Everything is done by the commands an administrator would type, on real daemons and real QEMU guests; what is claimed is
measured from the guest LAN. ``KEEP=1`` in the environment leaves the cluster running; ``DELAY_MS=500`` holds every node
call back by up to so many milliseconds, by the same ones for the same ``DELAY_SEED``; ``GANETI_IP=6`` or
``GANETI_IP=hybrid`` are the addresses of the nodes.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ganeti.base.errors import CommandError, GanetiError, ParameterError
from ganeti.system import call_delay
from ganeti.tools.testbed import bed as beds
from ganeti.tools.testbed import cluster, layout, machine, processes, watching
from ganeti.tools.testbed.layout import Layout, Node
from ganeti.tools.testbed.watching import Watch

GUESTS = ("inst1", "inst2", "inst3")
TEMPLATES = {"inst1": "sharedfile", "inst2": "sharedfile", "inst3": "mirror"}
MIRRORED = "inst3"
BEATS_PER_S = 2
BOOTS_WITHIN_S = 60.0
PLACE = Path("/var/tmp")  # noqa: S108 (a disk file system on every Debian; mkdtemp makes the name)


class Story:
    """The cluster under demonstration, and how its events are told."""

    def __init__(self, bed: Layout, watch: Watch) -> None:
        self.bed = bed
        self.watch = watch
        self._master = bed.nodes[0].name
        self.addresses = addresses(bed)

    def command(self, *words: str, show: bool = True) -> str:
        """Run a command on the master as an administrator would, showing it and what it says."""
        if show:
            print(f"\n  {self._master}# {' '.join(words)}", flush=True)
        done = machine.run(self.bed, self._master, *words)
        said = (done.stdout + done.stderr).rstrip()
        if show and said:
            print("".join(f"  {line}\n" for line in said.splitlines()), end="", flush=True)
        if done.returncode:
            raise CommandError(f"{' '.join(words[:2])} failed (status {done.returncode}): {said}")
        return done.stdout

    def instances(self) -> dict[str, str]:
        """Give the primary node of every instance."""
        listed = self.command("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,pnode", show=False)
        return dict(line.split("|") for line in listed.splitlines())

    def wait_for_guests(self, since_s: float) -> None:
        for name in GUESTS:
            self.watch.wait_for_beat(name, since_s, BOOTS_WITHIN_S)


def addresses(bed: Layout) -> dict[str, str]:
    """Give the guests' own, by their names."""
    return {name: bed.guest_address(number) for number, name in enumerate(GUESTS, 1)}


def chapter(title: str) -> None:
    print(f"\n== {title}", flush=True)


def tell(sentence: str) -> None:
    print(f"  {sentence}", flush=True)


def create_guests(story: Story) -> None:
    chapter("Virtual machines, placed without naming a node")
    began = time.monotonic()
    for name in GUESTS:
        story.command(
            *("gnt-instance", "add", "-t", TEMPLATES[name], "-o", "heartbeat+default", "--disk", "0:size=64m"),
            *(("-n", "node2:node3") if name == MIRRORED else ()),
            *("-B", "memory=128,vcpus=1", "-O", f"rate={BEATS_PER_S},ack={watching.ack(story.bed)}"),
            *("--net", "0:", name),
        )
    story.wait_for_guests(began)
    story.command("gnt-instance", "list")
    tell(f"all {len(GUESTS)} guests write their heartbeat, {time.monotonic() - began:.0f} s after the first command")


def migrate(story: Story) -> None:
    chapter("A live migration, under ping and heartbeat")
    name = GUESTS[0]
    origin = story.instances()[name]
    began = time.monotonic()
    story.command("gnt-instance", "migrate", "-f", name)
    ended = time.monotonic()
    story.watch.wait_for_beat(name, ended, BOOTS_WITHIN_S)
    now_on = story.instances()[name]
    if now_on == origin:
        raise CommandError(f"{name} is still on {origin}")
    gap_ms = story.watch.longest_gap_s(story.addresses[name], began, ended) * 1000
    lost = story.watch.lost_beats(name, began)
    tell(f"{name} went from {origin} to {now_on} in {ended - began:.1f} s; longest ping gap {gap_ms:.0f} ms")
    tell(f"lost beats: {lost}")
    if lost:
        raise CommandError(f"{name} lost {lost} beats in the migration")


def pull_the_plug(story: Story, victim: Node) -> None:
    chapter(f"The plug of {victim.name} is pulled")
    lost = tuple(name for name, home in sorted(story.instances().items()) if home == victim.name)
    pulled = time.monotonic()
    machine.kill(story.bed, victim)
    tell(f"{victim.name} is dark, and with it {', '.join(lost)}")
    story.command("gnt-node", "modify", "--offline", "yes", "--force", victim.name)
    acknowledged = {name: story.watch.last_beat(name) for name in lost}
    held = {name: watching.held_beat(story.bed, name) for name in lost}
    commanded = time.monotonic()
    for name in lost:
        story.command("gnt-instance", "failover", "-f", name)
    for name in lost:
        back, first = story.watch.wait_for_beat(name, commanded, BOOTS_WITHIN_S)
        tell(
            f"{name} beats again on {story.instances()[name]}, {back - pulled:.1f} s after the plug was pulled: "
            f"last acknowledged {acknowledged[name]}, on the disk {held[name]}, goes on with {first}"
        )
        # The dark node's own copy may hold one beat more, which nobody acknowledged.
        if held[name] < acknowledged[name] or first <= acknowledged[name]:
            raise CommandError(f"{name}'s disk holds {held[name]}, but {acknowledged[name]} was acknowledged")


def bring_back(story: Story, victim: Node) -> None:
    chapter(f"{victim.name} gets power again")
    machine.start(story.bed, victim)
    processes.wait_for(
        lambda: not machine.run(story.bed, victim.name, "daemon-util", "check", "ganeti-noded").returncode,
        30,
        f"the start of the daemons on {victim.name}",
    )
    story.command("gnt-node", "modify", "--offline", "no", victim.name)
    left = machine.run(story.bed, victim.name, "pgrep", "-f", "qemu-system").stdout.split()
    tell(f"guests running on {victim.name}: {len(left)}")
    if left:
        raise CommandError(f"{victim.name} came back with {len(left)} guests that live elsewhere")
    wait_for_copies(story)


def wait_for_copies(story: Story) -> None:
    """The watcher, which a timer runs every few minutes, opens the copy on the node that was away."""
    story.command("ganeti-watcher", "--ignore-pause")
    processes.wait_for(
        lambda: "*DEGRADED*" not in story.command("gnt-instance", "info", MIRRORED, show=False),
        30,
        f"the second copy of {MIRRORED}",
    )
    tell(f"both copies of the disk of {MIRRORED} are equal again")


def conclude(story: Story) -> None:
    chapter("All is well")
    story.command("gnt-cluster", "verify")
    story.command("gnt-node", "list")
    story.command("gnt-instance", "list")


@contextlib.contextmanager
def stage(keep: bool) -> Iterator[Layout]:
    """Put up three nodes; take them down at the end unless they are to be kept."""
    directory = Path(tempfile.mkdtemp(prefix="ganeti-demo-", dir=PLACE))
    made = None
    try:
        made = beds.up(directory, 3, "kvm", say=tell, ip=asked_ip())
        yield made
    except BaseException:
        if made is not None and keep:
            tell(f"kept for a look: .venv/bin/gnt-testbed shell {directory}")
            made = None
        raise
    finally:
        if made is not None and not keep:
            beds.down(made)
        elif directory.exists() and not any(directory.iterdir()):
            directory.rmdir()


def asked_ip() -> str:
    """Raises `ParameterError` for what `gnt-testbed up --ip` does not know."""
    asked = os.environ.get("GANETI_IP") or "4"
    if asked not in layout.IP:
        raise ParameterError(f"GANETI_IP={asked}: write one of {', '.join(layout.IP)}")
    return asked


def delay_calls() -> None:
    """From now on every process of the testbed holds its node calls back, if that is asked for."""
    for asked, name in (("DELAY_MS", call_delay.DELAY), ("DELAY_SEED", call_delay.SEED)):
        if os.environ.get(asked):
            os.environ[name] = os.environ[asked]


def main() -> int:
    began = time.monotonic()
    delay_calls()
    keep = os.environ.get("KEEP", "") not in {"", "0"}
    try:
        chapter("Three nodes with their own sshd, daemons and bridges, on this machine")
        with stage(keep) as bed:
            cluster.create(bed, say=tell)
            with watching.watching(bed, list(addresses(bed).values())) as watch:
                story = Story(bed, watch)
                story.command("gnt-node", "list")
                create_guests(story)
                migrate(story)
                for _ in range(2):  # the primary node of the mirrored guest, then the one it is on then
                    victim = bed.node(story.instances()[MIRRORED])
                    pull_the_plug(story, victim)
                    bring_back(story, victim)
                conclude(story)
            print(f"\nThe story took {time.monotonic() - began:.0f} s.")
            if keep:
                print(f"A shell on the master: .venv/bin/gnt-testbed shell {bed.directory}")
                print(f"The end of it: .venv/bin/gnt-testbed down {bed.directory}")
    except GanetiError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
