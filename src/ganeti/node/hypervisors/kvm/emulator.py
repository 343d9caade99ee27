# SPDX-License-Identifier: BSD-2-Clause
"""The QEMU program of this node: where it is, what it can do (asked once a binary), and the emulation bug of old ones.

Before QEMU 9.0, live migration under software emulation corrupts memory if the RAM size is a multiple of 256 KiB
(fixed by upstream commit 03bfc2188f): `ram_kib` avoids such sizes.
"""

import json
import os
import tempfile
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, CommandError, HypervisorError
from ganeti.node.hypervisors.kvm import named_files
from ganeti.node.hypervisors.kvm.parameters import DEFAULT_KVM_PATH
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import write_atomically

FALLBACK_PATH = "/usr/bin/qemu-system-x86_64"
DEFAULT_MACHINE = "q35"
KVM = "kvm"
TCG = "tcg"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
SANDBOX_CHANGING_USER = "on,obsolete=deny,elevateprivileges=allow,spawn=deny,resourcecontrol=deny"
_EMULATION_FIXED_IN = [9, 0]
_BUG_MULTIPLE_KIB = 256
_BUG_STEP_KIB = 8
_QUESTIONS = (
    {"execute": "qmp_capabilities"},
    {"execute": "query-version"},
    {"execute": "query-machines"},
    {"execute": "query-migrate-capabilities"},
    {"execute": "query-cpu-definitions"},
    {"execute": "qom-list-types", "arguments": {"implements": "device", "abstract": False}},
    {"execute": "query-commands"},
    {"execute": "quit"},
)
_ANSWER_S = 30.0


class Emulator(msgspec.Struct, frozen=True, kw_only=True):
    """What one QEMU binary can do."""

    path: str
    identity: str
    version: list[int]
    machines: dict[str, str]
    """Every machine name and alias, with the versioned name it stands for."""
    capabilities: list[str]
    cpu_models: list[str]
    devices: list[str]
    sandbox: bool
    spice: bool

    def machine(self, wanted: str) -> str:
        """Give the versioned machine; raises `HypervisorError`."""
        name = self.machines.get(wanted or DEFAULT_MACHINE)
        if name is None:
            raise HypervisorError(
                f"QEMU {self.version_text} on this node has no machine '{wanted or DEFAULT_MACHINE}': "
                f"'{self.path} -machine help' lists what machine_version can be"
            )
        return name

    @property
    def version_text(self) -> str:
        return ".".join(str(part) for part in self.version)


def program(hvparams: dict[str, Any]) -> str:
    """Give the path of QEMU; raises `HypervisorError` if there is none."""
    wanted = str(hvparams.get("kvm_path") or DEFAULT_KVM_PATH)
    if (reason := named_files.program_fault(wanted)) is not None:
        raise HypervisorError(f"kvm_path cannot be {wanted}: {reason}")
    if os.access(wanted, os.X_OK):
        return wanted
    if wanted == DEFAULT_KVM_PATH and os.access(FALLBACK_PATH, os.X_OK):
        return FALLBACK_PATH
    also = f" (nor {FALLBACK_PATH})" if wanted == DEFAULT_KVM_PATH else ""
    raise HypervisorError(
        f"QEMU is not at {wanted}{also}: install the package qemu-system-x86, or set the parameter kvm_path"
    )


def identity(path: str) -> str:
    """What changes when the binary is replaced."""
    status = os.stat(path)
    return f"{os.path.realpath(path)}:{status.st_mtime_ns}:{status.st_size}"


async def describe(world: NodeWorld, places: Places, hvparams: dict[str, Any]) -> Emulator:
    """Ask QEMU what it can do, or give what it said before; raises `HypervisorError`."""
    path = program(hvparams)
    cache = f"{places.base}/emulator-{os.path.basename(path)}.json"
    known = _read(cache)
    if known is not None and known.identity == identity(path) and known.path == path:
        return known
    places.prepare()
    descriptor, fresh = tempfile.mkstemp(prefix=f"{os.path.basename(cache)}.", dir=places.base)
    os.close(descriptor)
    try:
        found = await _ask(world, path, fresh, sandbox=True) or await _ask(world, path, fresh, sandbox=False)
    finally:
        os.unlink(fresh)
    if found is None:
        raise HypervisorError(f"{path} does not start; 'qemu -machine none' on this node shows why")
    write_atomically(cache, msgspec.json.encode(found), mode=0o600, durable=False)
    return found


def ram_kib(memory_mib: int, accelerator: str, version: list[int]) -> int:
    """Give the RAM size to use: what was asked for, and 8 KiB more where the emulation bug would strike."""
    size = memory_mib * 1024
    if accelerator == TCG and version < _EMULATION_FIXED_IN and size % _BUG_MULTIPLE_KIB == 0:
        return size + _BUG_STEP_KIB
    return size


def emulation_bug(accelerator: str, version: list[int], kib: int) -> bool:
    """Whether live migration of such a guest would corrupt its memory."""
    return accelerator == TCG and version < _EMULATION_FIXED_IN and kib % _BUG_MULTIPLE_KIB == 0


def _read(path: str) -> Emulator | None:
    try:
        with open(path, "rb") as source:
            return msgspec.json.decode(source.read(), type=Emulator)
    except (OSError, *UNREADABLE_JSON):
        return None


async def _ask(world: NodeWorld, path: str, answers: str, *, sandbox: bool) -> Emulator | None:
    """QEMU writes to the file *answers*: what a pipe has no room for it forgets when it is told to quit."""
    argv = [path, "-machine", "none", "-accel", TCG, "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-S", "-monitor", "none", "-serial", "none", "-qmp", "stdio"]
    if sandbox:
        argv += ["-sandbox", SANDBOX]
    questions = b"".join(json.dumps(question).encode() + b"\n" for question in _QUESTIONS)
    try:
        ended = await world.run(argv, stdin=questions, stdout_path=answers, timeout_s=_ANSWER_S, check=False)
        with open(answers, "rb") as source:
            messages = [json.loads(line) for line in source if line.startswith(b"{")]
    except (CommandError, OSError, ValueError) as err:
        raise HypervisorError(f"{path} does not answer: {err}") from err
    returns = [message["return"] for message in messages if "return" in message]
    if ended.status != 0 or len(returns) < len(_QUESTIONS) - 1:
        return None
    return _gathered(path, returns, sandbox)


def _gathered(path: str, returns: list[Any], sandbox: bool) -> Emulator:
    _, version, machines, capabilities, cpus, devices, commands = returns[:7]
    named = {entry["name"]: entry["name"] for entry in machines}
    named |= {entry["alias"]: entry["name"] for entry in machines if "alias" in entry}
    numbers = version["qemu"]
    return Emulator(
        path=path,
        identity=identity(path),
        version=[numbers["major"], numbers["minor"], numbers["micro"]],
        machines=named,
        capabilities=sorted(entry["capability"] for entry in capabilities),
        cpu_models=sorted(entry["name"] for entry in cpus),
        devices=sorted(entry["name"] for entry in devices),
        sandbox=sandbox,
        spice=any(entry["name"] == "query-spice" for entry in commands),
    )
