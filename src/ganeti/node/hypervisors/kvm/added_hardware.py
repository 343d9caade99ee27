# SPDX-License-Identifier: BSD-2-Clause
"""Virtual CPUs and memory modules that a guest is given while it runs, within what it was started for.

``hotplug_vcpus`` and ``hotplug_memory`` make room for them in the machine at its start. They are taken away at the next
start only: few guests let go of a processor or of memory.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import emulator, record
from ganeti.node.hypervisors.kvm.devices import words
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import MemoryModule, RuntimeRecord

_MODULES_MAX = 16
_MODULE_STEP_MIB = 128
"""What a Linux guest takes at once on x86."""


def memory_room(known: RuntimeRecord) -> str:
    """What ``-m`` says after the size at the start."""
    if known.hvparams["hotplug_memory"] * 1024 <= known.ram_kib:
        return ""
    return f",slots={_MODULES_MAX},maxmem={known.hvparams['hotplug_memory']}M"


def cpu_count(known: RuntimeRecord) -> list[str]:
    """The first entries of ``-smp``."""
    start = known.vcpus - len(known.added_cpus)
    limit = known.hvparams["hotplug_vcpus"]
    return [str(start), f"maxcpus={limit}"] if limit > start else [str(start)]


def arguments(known: RuntimeRecord) -> list[str]:
    """What was added before, for a migration target."""
    found: list[str] = []
    for module in known.added_memory:
        found += ["-object", f"memory-backend-ram,id={_backend(module)},size={module.size_mib}M"]
        found += ["-device", words(_module_device(module) | {"slot": module.slot, "addr": module.address})]
    for options in known.added_cpus:
        found += ["-device", words(options)]
    return found


class HardwareChange:
    """One change of a guest's virtual CPUs or memory; *known* is its record before."""

    def __init__(self, places: Places, known: RuntimeRecord) -> None:
        self._places = places
        self.known = known

    async def set_vcpus(self, qmp: Qmp, count: int) -> bool:
        """Give the guest *count* virtual CPUs; false where it has no room for them, or is to have fewer."""
        if not self.known.vcpus <= count <= max(self.known.vcpus, self.known.hvparams["hotplug_vcpus"]):
            return False
        while self.known.vcpus < count:
            options = await self._free_cpu(qmp)
            await qmp.execute("device_add", options)
            self._note(vcpus=self.known.vcpus + 1, added_cpus=[*self.known.added_cpus, options])
        return True

    async def _free_cpu(self, qmp: Qmp) -> dict[str, Any]:
        free = [entry for entry in await qmp.execute("query-hotpluggable-cpus") if "qom-path" not in entry]
        first = min(free, key=lambda entry: [number for _, number in sorted(entry["props"].items(), reverse=True)])
        return {"driver": first["type"], "id": f"cpu{self.known.vcpus}", **first["props"]}

    async def set_memory(self, qmp: Qmp, memory_mib: int) -> bool:
        """Give the guest *memory_mib* by another module; false where it has no room for it, or is to have less.

        Raises `HypervisorError` for an amount that a guest cannot take.
        """
        more = memory_mib - self.known.most_memory_mib
        if not more:
            return True
        if more < 0 or memory_mib > self.known.hvparams["hotplug_memory"]:
            return False
        if more % _MODULE_STEP_MIB:
            raise HypervisorError(
                f"{self.known.name} has {self.known.most_memory_mib} MiB and runs: it takes more in multiples of "
                f"{_MODULE_STEP_MIB} MiB"
            )
        module = MemoryModule(identity=_free_name(self.known.added_memory), size_mib=more)
        size = more * 1024 * 1024
        await qmp.execute("object-add", {"qom-type": "memory-backend-ram", "id": _backend(module), "size": size})
        try:
            await qmp.execute("device_add", _module_device(module))
        except QmpError:
            await qmp.execute("object-del", {"id": _backend(module)})
            raise
        found = next(
            entry["data"]
            for entry in await qmp.execute("query-memory-devices")
            if entry["data"]["id"] == module.identity
        )
        module = msgspec.structs.replace(module, slot=found["slot"], address=found["addr"])
        self._note(
            added_memory=[*self.known.added_memory, module],
            memory_mib=self.known.memory_mib + more,
            live_obstacle=self._obstacle(module),
        )
        return True

    def _obstacle(self, module: MemoryModule) -> str:
        if not emulator.emulation_bug(self.known.accelerator, self.known.qemu_version, module.size_mib * 1024):
            return self.known.live_obstacle
        return "this QEMU corrupts added memory in live migration under emulation: migrate non-live, or start it anew"

    def _note(self, **changes: Any) -> None:
        self.known = msgspec.structs.replace(self.known, **changes)
        record.write(self._places, self.known)


def _backend(module: MemoryModule) -> str:
    return f"{module.identity}-memory"


def _module_device(module: MemoryModule) -> dict[str, Any]:
    return {"driver": "pc-dimm", "id": module.identity, "memdev": _backend(module)}


def _free_name(modules: Sequence[MemoryModule]) -> str:
    taken = {module.identity for module in modules}
    return next(name for number in range(len(taken) + 1) if (name := f"dimm{number}") not in taken)
