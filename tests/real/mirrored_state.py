# SPDX-License-Identifier: BSD-2-Clause
"""What must hold of a mirrored instance and of all nodes once nothing fails any more."""

from __future__ import annotations

from tests.real.mirrored_bed import KEEPERS, MIRRORD, NAME, STORAGE_DAEMON, Guest, MirroredBed
from tests.system.fake_bed import MASTER

from ganeti.node.storage.mirror.places import identity
from ganeti.node.storage.mirror.requests import PRIMARY, SECONDARY
from ganeti.tools.testbed.node_files import FILE_STORAGE


def is_whole(bed: MirroredBed) -> bool:
    """Whether the primary's ganeti-mirrord says that both copies are equal, and the secondary's that its own is."""
    instance = bed.instance()
    if instance is None or instance["secondary"] is None:
        return False
    primary, secondary = (bed.state(instance[side]) for side in ("primary", "secondary"))
    return (
        primary is not None
        and secondary is not None
        and (primary.role, primary.in_sync) == (PRIMARY, True)
        and (secondary.role, secondary.kept.valid) == (SECONDARY, True)
    )


def verify(bed: MirroredBed, *, unfinished: bool = False) -> None:
    """All is well, but that an *unfinished* replace-disks may leave ``IMAGE.old``, an orphan until its second try."""
    with bed.going_on():
        said = bed.run("gnt-cluster", "verify", expect=None)
    told = [line for line in said.splitlines() if "ERROR" in line or "WARNING" in line]
    wrong = [line for line in told if not (unfinished and line.endswith(".old is unknown"))]
    assert not wrong and "Verifying group" in said, said


def wait_quiet(bed: MirroredBed) -> None:
    """Until no job has a process, a lock or steps to be undone."""

    def is_quiet() -> bool:
        bed.let_go_on()
        return not _undo_files(bed) and bed._no_lock_is_held()

    bed.wait(is_quiet, "no job has locks, or steps that are to be undone", every_s=0.05)


def check_all(bed: MirroredBed, guest: Guest, *, unfinished: bool = False) -> None:
    """No acknowledged write is lost, one node writes, both copies are identical, nothing else is anywhere.

    An *unfinished* grow-disk may leave copies that are larger than the configuration says, and an unfinished
    replace-disks the former copy as ``IMAGE.old``, until the second try.
    """
    instance = bed.instance()
    if instance is not None:
        assert not instance.get("forthcoming"), "the instance is half made"
        if instance["disk"]["dev_type"] == "mirror":
            _check_copies(bed, guest, instance, unfinished)
        else:
            assert not (wrong := guest.blocks.wrong_in(bed.image(instance["primary"]).read_bytes())), wrong
    _check_nothing_else(bed, instance, unfinished)


def check_logs(bed: MirroredBed) -> None:
    for node in bed.layout.nodes:
        for path in (node.upper / "var/log/ganeti").glob("*.log"):
            text = path.read_text(errors="replace")
            assert "Traceback" not in text, f"{path.name} of {node.name}: {text[text.index('Traceback') :][:3000]}"


def _check_copies(bed: MirroredBed, guest: Guest, instance: dict, unfinished: bool) -> None:
    primary, secondary, size = instance["primary"], instance["secondary"], instance["disk"]["size"] * 1024 * 1024
    if instance["admin_state"] == "up":
        with bed.going_on():  # the watcher submits a job that opens what is closed, and does not wait for it
            bed.wait(lambda: is_whole(bed), "both copies are equal", every_s=0.05)
        assert bed.running_at() == primary, f"the guest is on {bed.running_at()}, not on {primary}"
        assert bed.guests() == {NAME: [primary]}
        roles = {node: [opened["role"] for opened in bed.opened(node)] for node in KEEPERS}
        wanted = {node: [PRIMARY] if node == primary else [SECONDARY] if node == secondary else [] for node in KEEPERS}
        assert roles == wanted, f"roles are {roles}, wanted {wanted}"
        with bed.disk(primary) as disk:
            through = disk.read(0, size)
        assert not (wrong := guest.blocks.wrong_in(through)), f"through the device: {wrong}"
    contents = {node: bed.image(node).read_bytes() for node in (primary, secondary)}
    for node, content in contents.items():
        assert not (wrong := guest.blocks.wrong_in(content)), f"in the copy on {node}: {wrong}"
    assert contents[primary][:size] == contents[secondary][:size], "both copies differ"
    lengths = {node: len(content) for node, content in contents.items()}
    assert all(length == size or (unfinished and length > size) for length in lengths.values()), (
        f"{lengths}, not {size}"
    )


def _check_nothing_else(bed: MirroredBed, instance: dict | None, unfinished: bool) -> None:
    mirrored = instance is not None and instance["disk"]["dev_type"] == "mirror"
    in_use = instance is not None and mirrored and instance["admin_state"] == "up"
    for node in KEEPERS:
        files: set[str] = set()
        ids: set[str] = set()
        if instance is not None and node in (instance["primary"], instance["secondary"]):
            path = instance["disk"]["logical_id"][1].removeprefix(f"{FILE_STORAGE}/")
            files = {path, f"{path}.mirror"} if mirrored else {path}
            ids = {identity(instance["disk"]["uuid"])} if in_use else set()
        stored = {name for name in bed.stored(node) if not (unfinished and ".old" in name)}
        assert stored == files, f"{node} stores {stored}, wanted {files}"
        place = bed.root(node) / "run/ganeti/mirror"
        found = {path.name.partition(".")[0] for path in place.glob("*.*")} if place.exists() else set()
        assert found == ids, f"{node} keeps files of the disks {found}, wanted {ids}"
        shown = len(list(place.glob("*.show")))  # to a program that needs a file, as long as the disk is open
        daemons = len(bed.pids(node, STORAGE_DAEMON))
        wanted = range(len(ids), len(ids) + shown + 1)  # the file of one that has ended may be there
        assert daemons in wanted, f"{daemons} storage daemons run on {node} for {len(ids)} disks"
        running = len(bed.pids(node, MIRRORD))
        assert running == 1 or (running == 0 and not ids), (
            f"{MIRRORD} runs {running} times on {node}"
        )  # idle it ends later
    if instance is None or instance["admin_state"] != "up":
        assert bed.guests() == {}
    wait_quiet(bed)


def _undo_files(bed: MirroredBed) -> list[str]:
    return [path.name for path in (bed.data(MASTER) / "queue").glob("job-*.undo")]
