# SPDX-License-Identifier: BSD-2-Clause
"""Where the files of KVM guests lie: the run directory of 3.1, ``run/ganeti/kvm-hypervisor`` (compat, paths).

pid/NAME            written and locked by QEMU itself
conf/NAME.runtime   the runtime record
conf/NAME.runtime-before  that of the Ganeti which a running guest was taken over from
conf/NAME.migration what a migration under way needs to end it (no key)
ctrl/NAME.qmp       QMP; .monitor human monitor, .serial console, .qga guest agent, .kvmd a second QMP
ctrl/NAME.shutdown  says that the guest was shut down from inside; written by ganeti-kvmd
uid/NAME            its user id, of the cluster's pool
nic/NAME/N          name of the tap of NIC N
keys/NAME-ROLE/     one-time key of a migration under way, mode 0700
chroot/NAME         empty directory, for use_chroot
"""

import glob
import os
import shutil
from dataclasses import dataclass

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths

KEY_ROLES = ("source", "target", "sender", "receiver")
CONTROL_SOCKETS = ("qmp", "monitor", "serial", "qga", "kvmd")
_DIRECTORIES = ("pid", "uid", "ctrl", "conf", "nic", "keys", "chroot")
_PRIVATE = 0o700
_PASSABLE = 0o711
"""QEMU as another user than root reaches the key of its migration, and sees no other's name."""


@dataclass(frozen=True)
class Places:
    paths: Paths

    @property
    def base(self) -> str:
        return f"{self.paths.run_dir}/kvm-hypervisor"

    @property
    def log_dir(self) -> str:
        return f"{self.paths.log_dir}/kvm"

    @property
    def pid_dir(self) -> str:
        return f"{self.base}/pid"

    @property
    def probe_file(self) -> str:
        return f"{self.base}/probe.json"

    @property
    def interface_script(self) -> str:
        """The administrator's own way to connect taps; used when it is executable."""
        return f"{self.paths.sysconf_dir}/kvm-vif-bridge"

    def pid(self, name: str) -> str:
        return f"{self.base}/pid/{name}"

    def record(self, name: str) -> str:
        return f"{self.base}/conf/{name}.runtime"

    def record_before(self, name: str) -> str:
        return f"{self.base}/conf/{name}.runtime-before"

    def process(self, name: str) -> str:
        return f"{self.base}/conf/{name}.process"

    def migration(self, name: str) -> str:
        return f"{self.base}/conf/{name}.migration"

    @property
    def uid_dir(self) -> str:
        return f"{self.base}/uid"

    def uid(self, name: str) -> str:
        return f"{self.uid_dir}/{name}"

    def socket(self, name: str, kind: str) -> str:
        return f"{self.base}/ctrl/{name}.{kind}"

    @property
    def control_dir(self) -> str:
        return f"{self.base}/ctrl"

    def user_shutdown(self, name: str) -> str:
        """There as long as a guest that was shut down from inside is neither started nor stopped."""
        return f"{self.base}/ctrl/{name}.shutdown"

    def nic_dir(self, name: str) -> str:
        return f"{self.base}/nic/{name}"

    def keys(self, name: str, role: str) -> str:
        return f"{self.base}/keys/{name}-{role}"

    def chroot(self, name: str) -> str:
        return f"{self.base}/chroot/{name}"

    def log(self, name: str) -> str:
        """What QEMU itself says."""
        return f"{self.log_dir}/{name}.log"

    def serial_log(self, name: str) -> str:
        """What the guest printed on its console; kept after its end."""
        return f"{self.log_dir}/{name}.serial.log"

    def prepare(self) -> None:
        """Make the directories; raises `HypervisorError`."""
        try:
            for name in _DIRECTORIES:
                os.makedirs(f"{self.base}/{name}", mode=_PRIVATE, exist_ok=True)
            for path in (self.base, f"{self.base}/keys"):
                os.chmod(path, _PASSABLE)
            os.makedirs(self.log_dir, mode=0o750, exist_ok=True)
        except OSError as err:
            raise HypervisorError(f"Cannot make the directories of KVM guests below {self.base}: {err}") from err

    def forget(self, name: str) -> None:
        """Remove every file of a guest that does not run any more (its logs stay)."""
        files = (
            *(self.pid(name), self.record(name), self.record_before(name), self.process(name), self.migration(name)),
            *(self.uid(name), self.user_shutdown(name)),
        )
        links = glob.glob(f"{self.paths.run_dir}/instance-disks/{glob.escape(name)}:*")  # of an earlier Ganeti
        for path in (*files, *links):
            _remove_file(path)
        for kind in CONTROL_SOCKETS:
            _remove_file(self.socket(name, kind))
        for directory in (self.nic_dir(name), *(self.keys(name, role) for role in KEY_ROLES), self.chroot(name)):
            shutil.rmtree(directory, ignore_errors=True)


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
