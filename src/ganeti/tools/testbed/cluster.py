# SPDX-License-Identifier: BSD-2-Clause
"""Making a cluster of a testbed's nodes, by the commands an administrator would type."""

import subprocess
from collections.abc import Callable, Sequence

from ganeti.base.errors import CommandError
from ganeti.tools.testbed import guest, layout, machine, node_files
from ganeti.tools.testbed.layout import Layout, Node

DISK_TEMPLATES = "diskless,file,sharedfile,mirror"
SMALL_GUESTS = (
    "min:cpu-count=1,disk-count=0,disk-size=1,memory-size=1,nic-count=0,spindle-use=1"
    "/max:cpu-count=8,disk-count=16,disk-size=1048576,memory-size=32768,nic-count=8,spindle-use=12"
)

# What boots the heartbeat guest, under emulation where there is no hardware for it.
HYPERVISOR_PARAMETERS = {
    "kvm": {
        "kernel_path": f"{node_files.GUEST_BOOT}/vmlinuz",
        "initrd_path": f"{node_files.GUEST_BOOT}/initrd",
        "kernel_args": guest.KERNEL_ARGS,
        "serial_console": "true",
        "kvm_flag": "disabled",  # as it is called: hardware may be absent
    }
}


def create(bed: Layout, say: Callable[[str], None] = lambda line: None) -> None:
    """Initialise the cluster on the first node and add all others at the same time.

    Raises `CommandError` with what a command said.
    """
    first, *others = bed.nodes
    say(f"gnt-cluster init {layout.CLUSTER_NAME} on {first.name}")
    _command(bed, *init_command(bed))
    if others:
        say(f"gnt-node add {', '.join(node.name for node in others)}")
    joining = []
    for node in others:
        words = add_command(node)
        joining.append((words, machine.popen(bed, first.name, *words)))
    said = [process.communicate() for _, process in joining]
    for (words, process), (out, errors) in zip(joining, said, strict=True):
        _check(subprocess.CompletedProcess(words, process.returncode, out, errors))
    wait_for_answering(bed, others)


def wait_for_answering(bed: Layout, nodes: Sequence[Node]) -> None:
    """Nodes start what answers questions after the command has ended: a start that is under way is waited for.

    A cluster is one without them, too.
    """
    start = f"{bed.commands if bed.unprivileged else layout.HELPERS}/daemon-util start"
    words = ("sh", "-c", f"{start} ganeti-confd; {start} ganeti-mond")
    for process in [machine.popen(bed, node.name, *words) for node in nodes]:
        process.communicate()


def secondary_words(node: Node) -> list[str]:
    """Give the option that names the node's secondary address, where it has one."""
    return ["-s", node.addresses[1]] if len(node.addresses) > 1 else []


def add_command(node: Node, *options: str) -> list[str]:
    """Give the words of ``gnt-node add`` for this node, to be run on the master."""
    return ["gnt-node", "add", "--no-ssh-key-check", *options, *secondary_words(node), node.name]


def token_command(node: Node, *options: str) -> list[str]:
    """Give the words of ``gnt-node token`` for this node, to be run on the master."""
    return ["gnt-node", "token", *options, *secondary_words(node), node.name]


def init_command(bed: Layout, on: str = "node1") -> list[str]:
    """Give the words of ``gnt-cluster init`` for this testbed, to be run on the node *on*."""
    node = bed.node(on)
    mode = "openvswitch" if bed.unprivileged else "bridged"  # only root makes bridges, which must be there
    words = [
        *("gnt-cluster", "init", "--no-etc-hosts"),
        *("--master-netdev", "lo" if bed.unprivileged else "eth0"),
        *("--master-netmask", "24" if bed.ip == "4" else "64"),
        *("--enabled-hypervisors", bed.hypervisor, "--enabled-disk-templates", DISK_TEMPLATES),
        *("--ipolicy-disk-templates", DISK_TEMPLATES),
        *("--file-storage-dir", node_files.FILE_STORAGE),
        *("--shared-file-storage-dir", node_files.SHARED_FILE_STORAGE),
        *("-N", f"mode={mode},link={layout.GUEST_BRIDGE}"),
        *("--ipolicy-bounds-specs", SMALL_GUESTS),
    ]
    if bed.ip != "4":  # without IPv4, the primary address is named a second time
        words += ["--primary-ip-version", "6", *(secondary_words(node) or ["-s", node.address])]
    parameters = HYPERVISOR_PARAMETERS.get(bed.hypervisor, {})
    if parameters:
        words += ["-H", f"{bed.hypervisor}:" + ",".join(f"{key}={value}" for key, value in parameters.items())]
    return [*words, layout.CLUSTER_NAME]


def _command(bed: Layout, *words: str) -> None:
    _check(machine.run(bed, "node1", *words))


def _check(done: "subprocess.CompletedProcess[str]") -> None:
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise CommandError(f"{' '.join(done.args[:2])} failed in the testbed: {said}")
