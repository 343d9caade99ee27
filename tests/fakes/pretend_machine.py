# SPDX-License-Identifier: BSD-2-Clause
"""A machine below a directory of the test: names and addresses from a table, daemons that only note what is asked."""

from __future__ import annotations

from pathlib import Path

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.bootstrap.machine import Machine
from ganeti.model.parameters import Parameter
from ganeti.model.traits import Catalogue, HypervisorTraits, TemplateTraits

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ root@node1\n"


class PretendMachine(Machine):
    def __init__(self, root: Path) -> None:
        self.said: list[str] = []
        super().__init__(str(root), "node1", self.said.append)
        self.names = {"node1": "10.77.0.1", "cluster": "10.77.0.100", "local": "127.0.0.1"}
        self.own = {"10.77.0.1", "10.99.0.1"}
        self.in_use: set[str] = set()
        self.told: list[str] = []
        self.broken: set[str] = set()
        """Words of daemon-util that fail."""

    def resolve(self, name: str, version: int) -> tuple[str, str]:
        if name not in self.names:
            raise PrerequisiteError(f"The name '{name}' has no IPv{version} address")
        return name, self.names[name]

    def owns(self, address: str) -> bool:
        return address in self.own

    def answers(self, address: str, port: int, timeout_s: float) -> bool:
        return address in self.in_use

    def has_device(self, name: str) -> bool:
        return name in ("eth0", "br0")

    def daemon_util(self, *words: str, timeout_s: float = 120.0) -> None:
        self.told.append(" ".join(words))
        if self.told[-1] in self.broken:
            raise CommandError(f"daemon-util failed: {self.told[-1]}")


def make(root: Path) -> PretendMachine:
    """A machine with a host key, an allowed directory, and an administrator's key."""
    for path, text in (
        ("etc/ssh/ssh_host_ed25519_key.pub", HOST_KEY),
        ("etc/ganeti/file-storage-paths", "/srv/ganeti/file-storage\n/srv/ganeti/shared-file-storage\n"),
        ("root/.ssh/authorized_keys", "ssh-ed25519 AAAAadmin admin\n"),
        ("etc/hosts", "127.0.0.1 localhost\n"),
    ):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return PretendMachine(root)


def catalogue() -> Catalogue:
    """Traits of invented drivers."""
    hypervisor = HypervisorTraits("pretend", parameters=(Parameter("kernel", "string", "/boot/k"),))
    templates = (
        TemplateTraits("none", "none", has_disks=False, shared=True),
        TemplateTraits("local", "local", directory_based=True, directory_setting="file_storage_dir"),
        TemplateTraits("volumes", "lvm-vg"),
    )
    return Catalogue({traits.name: traits for traits in templates}, {"pretend": hypervisor})


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and directory below *root*: mode and content."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }
