# SPDX-License-Identifier: BSD-2-Clause
"""Putting up a whole testbed and taking it down again without a trace."""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.tools.testbed import guest, layout, loopback, machine, network, node_files
from ganeti.tools.testbed.layout import Layout

GUEST_IMAGE: dict[str, Callable[[], guest.GuestImage | None]] = {"kvm": guest.ensure, "fake": guest.find}
NEEDED = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "ssh-keygen": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
}


def up(
    directory: Path,
    node_count: int,
    hypervisor: str,
    watcher_interval_s: int = 15,
    unprivileged: bool = False,
    say: Callable[[str], None] = lambda line: None,
    *,
    package: Path | None = None,
    needed_by_package: Sequence[Path] = (),
    ip: str = "4",
) -> Layout:
    """Put up a testbed of running nodes without a cluster; whatever fails, nothing is left behind.

    Raises `PrerequisiteError` when the place, the machine or the rights do not allow it.
    """
    directory = layout.check_new(directory, node_count)
    if ip != "4" and unprivileged:
        raise PrerequisiteError("nodes on loopback addresses have IPv4 only: leave out --ip, or put them up as root")
    if package is not None and (unprivileged or not package.is_file()):
        raise PrerequisiteError(
            f"{package} cannot be installed in nodes: name a package's file, without --unprivileged"
        )
    loopback.check_machine() if unprivileged else _check_machine()
    bed = Layout(directory, guest.tree(), hypervisor, node_count, watcher_interval_s, unprivileged)
    bed = dataclasses.replace(bed, ip=ip, package=str(package.resolve()) if package else "")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        bed.save()
        if unprivileged:
            loopback.up(bed, say)
            return bed
        _check_overlay(directory)
        bed.shared.mkdir()
        _put_guest(bed)
        say(f"network: a hub and {node_count} pairs of cables")
        network.lay_hub(bed)
        node_files.make_keys(bed)
        for node in bed.nodes:
            node_files.write(bed, node)
            machine.start(bed, node)
            say(f"{node.name} is on, {node.address}")
        if bed.package:
            say(f"installing {bed.package}")
            install(bed, Path(bed.package), *needed_by_package)
    except BaseException:
        down(bed)
        raise
    return bed


def install(bed: Layout, *packages: Path, nodes: Sequence[layout.Node] | None = None) -> None:
    """Install packages in all *nodes* at once, over whatever is there; raises `CommandError` with dpkg's words."""
    running = []
    for node in bed.nodes if nodes is None else nodes:
        for package in packages:
            shutil.copyfile(package, node.disks / package.name)
        words = ["dpkg", "--force-unsafe-io", "--force-confnew", "-Bi"]  # B: other Ganetis go
        words += [f"{node_files.FILE_STORAGE}/{package.name}" for package in packages]
        running.append((node, machine.popen(bed, node.name, "env", "DEBIAN_FRONTEND=noninteractive", *words)))
    for node, process in running:
        out, errors = process.communicate()
        for package in packages:
            (node.disks / package.name).unlink()
        if process.returncode:
            raise CommandError(f"{packages[0]} cannot be installed in {node.name}: {out}{errors}")


def down(bed: Layout) -> None:
    """End every node and remove everything the testbed has made, half made ones included."""
    for node in bed.nodes:
        with contextlib.suppress(PrerequisiteError):
            machine.kill(bed, node)
        if not bed.unprivileged:
            machine.freezer(bed, node).remove()
    if not bed.unprivileged:
        network.remove_hub(bed)
    shutil.rmtree(bed.directory)


def _put_guest(bed: Layout) -> None:
    """Real guests need the image; for others it is put there if it happens to exist."""
    image = GUEST_IMAGE[bed.hypervisor]()
    if image is not None:
        bed.boot.mkdir()
        shutil.copy(image.kernel, bed.boot / "vmlinuz")
        shutil.copy(image.initrd, bed.boot / "initrd")


def _check_machine() -> None:
    if os.geteuid():
        raise PrerequisiteError("nodes in namespaces need root; without it use --unprivileged --hypervisor fake")
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            raise PrerequisiteError(f"{program} is missing; install the package {package}, or run make install")


def _check_overlay(directory: Path) -> None:
    """Refuse a place where a node's files could not lie over the host's (tmpfs, or itself an overlay)."""
    try:
        os.setxattr(directory, "trusted.overlay.testbed", b"y")
        os.removexattr(directory, "trusted.overlay.testbed")
    except OSError as error:
        raise PrerequisiteError(
            f"{directory} lies on a file system that cannot hold overlays ({error.strerror}); choose one on a disk"
        ) from None
