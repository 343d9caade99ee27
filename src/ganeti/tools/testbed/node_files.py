# SPDX-License-Identifier: BSD-2-Clause
"""What a node finds in its files that the host does not have: names, keys, directories, our commands.

All of it is written into the upper layer of the node's overlay, so the host's own files are never opened for writing.
"""

import os
import shutil
import subprocess
from pathlib import Path

from ganeti.base.errors import CommandError
from ganeti.tools.testbed import layout
from ganeti.tools.testbed.layout import Layout, Node

KEY_TYPES = {"ed25519": (), "ecdsa": (), "rsa": ("-b", "2048")}
FILE_STORAGE = "/srv/ganeti/file-storage"
SHARED_FILE_STORAGE = "/srv/ganeti/shared-file-storage"
GUEST_BOOT = "/boot/ganeti-heartbeat"
OWN_DIRECTORIES = (
    "/etc/ganeti",
    "/etc/ssh",
    "/root/.ssh",
    "/srv/ganeti",
    "/usr/lib/ganeti",
    "/var/lib/ganeti",
    "/var/log/ganeti",
)
TOOLS = (
    "daemon-util",
    "prepare-node-join",
    "node-daemon-setup",
    "node-cleanup",
    "cfgupgrade",
    "take-over",
    "query-config",
    "confd-client",
    "burnin",
    "import-export",
    "backup-chain",
    "move-instance",
)
SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_rsa_key
HostKey /etc/ssh/ssh_host_ecdsa_key
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile /run/sshd.pid
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""


NEVER_S = 3600
"""From this interval on, the watcher comes when it is called."""


_rsa_keys: dict[str, tuple[bytes, bytes]] = {}
"""Host keys by node: all testbeds that one process puts up have the same, as each key computes for 0.3 s."""


def make_keys(bed: Layout) -> None:
    """Make the administrator's key and every node's host keys, all at once: RSA ones take a while."""
    place = bed.directory / "ssh"
    place.mkdir(mode=0o700)
    wanted = [("administrator", "ed25519", place / "administrator")]
    for node in bed.nodes:
        wanted += [(f"root@{node.name}", kind, place / f"{node.name}_{kind}") for kind in KEY_TYPES]
    wanted = [each for each in wanted if each[1] != "rsa" or not _put_known_key(each[2])]
    running = [
        subprocess.Popen(
            ("ssh-keygen", "-q", "-t", kind, *KEY_TYPES[kind], "-N", "", "-C", comment, "-f", str(path)),
            stdin=subprocess.DEVNULL,
        )
        for comment, kind, path in wanted
    ]
    if any([process.wait() for process in running]):
        raise CommandError("ssh-keygen failed; is the package openssh-client whole?")
    for _, kind, path in wanted:
        if kind == "rsa":
            _rsa_keys[path.name] = path.read_bytes(), path.with_suffix(".pub").read_bytes()


def _put_known_key(path: Path) -> bool:
    """Write the RSA key that an earlier testbed of this process had under this name, if there was one."""
    if path.name not in _rsa_keys:
        return False
    private, public = _rsa_keys[path.name]
    path.touch(mode=0o600)
    path.write_bytes(private)
    path.with_suffix(".pub").write_bytes(public)
    return True


def write(bed: Layout, node: Node) -> None:
    """Fill the upper layer of a node that has never been started."""
    for directory in (node.upper, node.place / "work", node.place / "root", node.disks):
        directory.mkdir(parents=True)
    for path in (*OWN_DIRECTORIES, *((str(bed.checkout), "/usr/share/ganeti") if bed.package else ())):
        _own_directory(node, path)
    _write_names(bed, node)
    _write_ssh(bed, node)
    _write_ganeti(bed, node)


def _inside(node: Node, path: str) -> Path:
    """Give the place of *path* in the upper layer, its parents made with the modes they have below."""
    place = node.upper / path.lstrip("/")
    for parent in reversed(place.relative_to(node.upper).parents[:-1]):
        made = node.upper / parent
        if not made.exists():
            made.mkdir()
            lower = Path("/") / parent
            if lower.exists():
                shutil.copystat(lower, made)
    return place


def _own_directory(node: Node, path: str) -> None:
    """Make a directory that hides whatever the host has there."""
    place = _inside(node, path)
    place.mkdir(mode=0o755)
    os.setxattr(place, "trusted.overlay.opaque", b"y")


def _put(node: Node, path: str, content: str | bytes, mode: int = 0o644) -> None:
    place = _inside(node, path)
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    place.chmod(mode)


def _link(node: Node, path: str, target: Path | str) -> None:
    _inside(node, path).symlink_to(target)


def hosts(bed: Layout) -> str:
    """Give the text of ``/etc/hosts``: the nodes, the cluster, and names for guests."""
    lines = ["127.0.0.1 localhost", f"{bed.cluster_address} {layout.CLUSTER_NAME}"]
    lines += [f"{address} {other.name}" for other in bed.nodes for address in other.addresses]
    lines += [f"{bed.guest_address(n)} inst{n}" for n in range(1, bed.guest_names + 1)]
    return "\n".join(lines) + "\n"


def _write_names(bed: Layout, node: Node) -> None:
    _put(node, "/etc/hosts", hosts(bed))
    _put(node, "/etc/hostname", f"{node.name}\n")


def _write_ssh(bed: Layout, node: Node) -> None:
    keys = bed.directory / "ssh"
    for kind in KEY_TYPES:
        private = keys / f"{node.name}_{kind}"
        _put(node, f"/etc/ssh/ssh_host_{kind}_key", private.read_bytes(), 0o600)
        _put(node, f"/etc/ssh/ssh_host_{kind}_key.pub", private.with_suffix(".pub").read_bytes())
    _put(node, "/etc/ssh/sshd_config", SSHD_CONFIG)
    (node.upper / "root/.ssh").chmod(0o700)
    _put(node, "/root/.ssh/authorized_keys", (keys / "administrator.pub").read_bytes(), 0o600)
    known = [_known_host(other, keys / f"{other.name}_{kind}.pub") for other in bed.nodes for kind in KEY_TYPES]
    _put(node, "/root/.ssh/known_hosts", "".join(known), 0o600)
    if node.index == 1:  # where the administrator sits; the cluster's own keys are the cluster's affair
        _put(node, "/root/.ssh/id_ed25519", (keys / "administrator").read_bytes(), 0o600)
        _put(node, "/root/.ssh/id_ed25519.pub", (keys / "administrator.pub").read_bytes())


def link_os_definitions(bed: Layout, place: Path) -> None:
    """Link each definition of the checkout, so that those made on the node stay on the node."""
    place.mkdir()
    for definition in (bed.checkout / "os").iterdir():
        (place / definition.name).symlink_to(definition)


def _known_host(node: Node, key: Path) -> str:
    return f"{','.join((node.name, *node.addresses))} {key.read_text().rpartition(' ')[0]}\n"


def _write_ganeti(bed: Layout, node: Node) -> None:
    _put(node, "/etc/ganeti/file-storage-paths", f"{FILE_STORAGE}\n{SHARED_FILE_STORAGE}\n")
    if bed.package:
        return
    if bed.watcher_interval_s >= NEVER_S:  # then nothing else has the watcher look, either
        _put(node, "/etc/default/ganeti", 'MAINTD_ARGS="--no-watcher"\n')
    link_os_definitions(bed, _inside(node, "/srv/ganeti/os"))
    for directory in ("iallocators", "tools"):
        _inside(node, f"/usr/lib/ganeti/{directory}").mkdir()
    _link(node, "/usr/lib/ganeti/iallocators/hail", bed.commands / "hail")
    for tool in TOOLS:
        _link(node, f"/usr/lib/ganeti/{tool}", bed.commands / tool)
        if tool != "daemon-util":
            _link(node, f"/usr/lib/ganeti/tools/{tool}", bed.commands / tool)
    _put(node, "/root/.bash_profile", f'PATH={bed.commands}:$PATH\nPS1="\\u@\\h:\\w# "\n')
    _put(node, "/root/.bashrc", f'PATH={bed.commands}:$PATH\nPS1="\\u@\\h:\\w# "\n')
