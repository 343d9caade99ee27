# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of ``lxc`` (opcodes, section 4), and what of LXC's own settings they may say.

A value comes from the submitter of a job, who need not be root of the node. So only settings are accepted that act
inside the container; none that names a path of the node, runs a program there or mounts something.
"""

import re
from collections.abc import Iterator
from typing import Any

from ganeti.model.hypervisors import PARAMETERS_OF_3_1
from ganeti.model.parameters import Parameter
from ganeti.node.hypervisors import affinity

_DEFAULTS = PARAMETERS_OF_3_1["lxc"]
CAPABILITIES = (
    *("chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap"),
    *("linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner"),
    *("sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice"),
    *("sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap"),
    *("mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf"),
    "checkpoint_restore",
)
"""In the order of the kernel's numbers."""
ALWAYS_DROPPED = frozenset(
    {
        *("audit_control", "audit_read", "block_suspend", "bpf", "checkpoint_restore", "dac_read_search", "mac_admin"),
        *("mac_override", "mknod", "perfmon", "sys_admin", "sys_boot", "sys_module", "sys_pacct", "sys_rawio"),
        *("sys_time", "sys_tty_config", "syslog", "wake_alarm"),
    }
)
"""With one of these, a process in a container without a user namespace changes the node, or becomes root of it."""

_ROOT_MAY = "root of the node can set it in /etc/ganeti/lxc/NAME.conf"
_DEVICE = re.compile(r"([a-z]) ([0-9]+:(?:[0-9]+|\*)) ([a-z]+)")
_HARMLESS_DEVICES = frozenset(
    {
        *("1:3", "1:5", "1:7", "1:8", "1:9", "1:10", "5:0", "5:1", "5:2", "136:*"),
        *("10:200", "10:229"),
    }
)
"""The defaults of 3.1, and tun and fuse."""
_CONFIG_LINE = re.compile(r"([a-z0-9_.-]+) *= *([A-Za-z0-9_./:=+@ -]*)")
_CONFIG_KEYS = re.compile(
    r"lxc\.environment|lxc\.prlimit\.[a-z]+|lxc\.signal\.(halt|reboot|stop)|lxc\.pty\.max|lxc\.init\.cmd"
    r"|lxc\.sysctl\.net\.ipv[46]\.[a-z0-9_]+(\.[a-z0-9_]+)*"
    r"|lxc\.cgroup2?\.(pids\.max|cpu\.shares|cpu\.weight|blkio\.weight|io\.weight)"
)


def words_of(value: str) -> list[str]:
    """Read a list with commas between its items."""
    return [word for word in (part.strip() for part in value.split(",")) if word]


def config_lines(value: str) -> Iterator[tuple[str, str]]:
    """Read ``extra_config``: settings with commas between them; one that cannot be read has an empty value."""
    for word in words_of(value):
        found = _CONFIG_LINE.fullmatch(word)
        yield (found[1], found[2].strip()) if found is not None else (word, "")


def _check_mask(value: Any) -> str | None:
    if ":" in str(value):
        return "a container has one list of processors, not one per virtual CPU"
    return affinity.problem_of(value)


def _check_capabilities(value: Any) -> str | None:
    unknown = [word for word in words_of(str(value)) if word not in CAPABILITIES]
    return f"'{unknown[0]}' is no capability: write names such as sys_time" if unknown else None


def _check_devices(value: Any) -> str | None:
    for word in words_of(str(value)):
        found = _DEVICE.fullmatch(word)
        if found is None:
            return f"'{word}' is not of the form 'c MAJOR:MINOR rw'"
        kind, numbers, access = found.groups()
        if kind != "c" or numbers not in _HARMLESS_DEVICES or not set(access) <= {"r", "w"}:
            return (
                f"'{word}' could reach beyond the container: root of the node allows that in /etc/ganeti/lxc/NAME.conf"
            )
    return None


def _check_cgroups(value: Any) -> str | None:
    wrong = [word for word in words_of(str(value)) if not re.fullmatch(r"[a-z0-9_]+", word)]
    return f"'{wrong[0]}' is no name of a cgroup controller" if wrong else None


def _check_config(value: Any) -> str | None:
    for key, setting in config_lines(str(value)):
        if not setting:
            return f"'{key}' is not of the form 'lxc.KEY = VALUE' in plain characters"
        if not _CONFIG_KEYS.fullmatch(key):
            return f"'{key}' could reach beyond the container: {_ROOT_MAY}"
        if key == "lxc.init.cmd" and not _is_inside(setting):
            return f"'{key} = {setting}' could reach beyond the container: write an absolute path outside of /proc"
    return None


def _is_inside(command: str) -> bool:
    """Whether a command is a path of the container's own; LXC starts it with descriptors of the node's at hand."""
    return command.startswith("/") and not {"proc", "..", "."} & set(re.split("[/ ]", command))


def _parameter(name: str, kind: str, text: str, **more: Any) -> Parameter:
    return Parameter(name, kind, _DEFAULTS[name], text, **more)


PARAMETERS = (
    _parameter("cpu_mask", "string", "processors that the container may use", check=_check_mask),
    _parameter("devices", "string", "device files that the container may use", check=_check_devices),
    _parameter(
        *("drop_capabilities", "string", "capabilities taken away, beside those that always are"),
        check=_check_capabilities,
    ),
    _parameter("extra_cgroups", "string", "further cgroup controllers that the node must have", check=_check_cgroups),
    _parameter("extra_config", "string", "further settings of LXC, with commas between them", check=_check_config),
    _parameter("num_ttys", "int", "terminals", minimum=0, maximum=64),
    _parameter("startup_timeout", "int", "seconds until the container runs", minimum=0, maximum=3600),
)
