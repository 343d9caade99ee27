# SPDX-License-Identifier: BSD-2-Clause
"""Where the files of containers lie (the package says which they are)."""

from dataclasses import dataclass

from ganeti.base.paths import Paths
from ganeti.node.hypervisors.interface import check_name


@dataclass(frozen=True)
class Places:
    paths: Paths

    @property
    def base(self) -> str:
        """LXC's own path of containers (``-P``)."""
        return f"{self.paths.run_dir}/lxc"

    def directory(self, name: str) -> str:
        check_name(name)
        return f"{self.base}/{name}"

    def config(self, name: str) -> str:
        return f"{self.directory(name)}/config"

    def root(self, name: str) -> str:
        return f"{self.directory(name)}/rootfs"

    def monitor_pid(self, name: str) -> str:
        return f"{self.directory(name)}/monitor.pid"

    def roots_own(self, name: str) -> str:
        return f"{self.paths.sysconf_dir}/lxc/{name}.conf"

    @property
    def log_dir(self) -> str:
        return f"{self.paths.log_dir}/lxc"

    def log(self, name: str) -> str:
        return f"{self.log_dir}/{name}.log"

    def console_log(self, name: str) -> str:
        return f"{self.log_dir}/{name}.console.log"
