# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug iallocator: what an allocator would be told, or would answer."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import UsageError
from ganeti.cli.invocation import out
from ganeti.cli.values import read_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_MANY = ("node-evacuate", "change-group")
_NEW = ("allocate", "multi-allocate")


def ask_allocator(call: Invocation) -> int:
    out(jobs.ask(call, opcode(call)).rstrip("\n"))
    return 0


def opcode(call: Invocation) -> dict[str, Any]:
    mode, names = call.get("mode"), call.values["names"]
    if len(names) > 1 and mode not in _MANY:
        raise UsageError(f"gnt-debug iallocator takes 1 instance with --mode {mode}, not {len(names)}")
    parameters: dict[str, Any] = {
        "OP_ID": "OP_TEST_ALLOCATOR",
        "direction": call.get("direction"),
        "mode": mode,
        "name": names[0],
        "iallocator": call.get("iallocator"),
    }
    if mode in _NEW:
        parameters |= {
            "memory": call.get("memory"),
            "vcpus": call.get("vcpus"),
            "disks": [{"size": read_size("--disks", text)} for text in call.get("disk_sizes") or []],
            "disk_template": call.get("disk_template"),
            "nics": [_nic(text) for text in call.get("nic_list") or []],
            "os": call.get("os_type"),
            "tags": call.get("tags") or [],
            "spindle_use": call.get("spindle_use"),
            "count": call.get("count"),
        }
    elif mode in _MANY:
        parameters |= {
            "instances": names,
            "evac_mode": call.get("evac_mode"),
            "target_groups": call.get("target_groups"),
        }
    return parameters


def _nic(text: str) -> dict[str, str | None]:
    """MAC address, IP address and bridge, parted by slashes; what is missing is left to defaults."""
    parts = text.split("/")
    if len(parts) > 3:
        raise UsageError(f"--nics: '{text}' has more than MAC/IP/BRIDGE")
    mac, ip, bridge = (*parts, *[""] * (3 - len(parts)))
    return {"mac": mac or None, "ip": ip or None, "bridge": bridge or None}
