# SPDX-License-Identifier: BSD-2-Clause
"""Whether hardware virtualisation works here, found out by booting something (D10).

/dev/kvm may open and yet run nothing, or run each instruction of a kernel by hand, a thousand times too slowly. So a
ROM of a few instructions goes from the reset vector to 64-bit mode with paging, takes an exception, counts to a hundred
million, and reports through the debug-exit port. Hardware does that in 50 ms, software emulation in half a second.
The answer is kept per boot and QEMU binary; a bad one for an hour only, since load or permissions may have caused it.
"""

import os
import tempfile
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, CommandError, HypervisorError
from ganeti.node.hypervisors.kvm.emulator import KVM, TCG, Emulator
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.ports.node_world import NodeWorld
from ganeti.system.boot import kernel_boot_id
from ganeti.system.files import write_atomically

DEVICE = "/dev/kvm"
REMEDY = "set kvm_flag=disabled to allow software emulation, which is many times slower"
_LIMIT_S = 8.0
_BAD_ANSWER_KEPT_S = 3600.0
_SUCCESS = 65
"""The debug-exit device ends QEMU with (value << 1) | 1; the ROM writes 32."""
_ROM_BYTES = 0x10000
# cli; ss:sp = 0:7000; lgdt cs:[e0]; cr0 |= PE; jmp 08:f001f
_REAL_MODE = "fa31c08ed0bc00702e660f0116e0000f20c00c010f22c066ea1f000f000800"
# ds = es = ss = 10; clear 1000..5000; page tables: 1000 -> 2000 -> 3000 -> 2 MiB page 0
_PAGE_TABLES = (
    "66b810008ed88ec08ed0bc0070000031c0bf00100000b900100000fcf3ab"
    "c7050010000003200000c7050020000003300000c7050030000083000000"
)
# cr4 |= PAE; cr3 = 1000; EFER |= LME; cr0 |= PG; jmp 18:f008b
_LONG_MODE = "0f20e00c200f22e0b8001000000f22d8b9800000c00f320d000100000f300f20c00d000000800f22c0ea8b000f001800"
# ds = ss = 10; lidt [f0150]; cpuid; ud2; count down from 100,000,000; out f4, 20; hlt
_WORK = "66b810008ed88ed00f011c2560010f0031c00fa20f0bb900e1f505ffc975fcb020e6f4f4ebfd"
# The handler of the invalid opcode (at b1): step over it
_HANDLER = "488304240248cf"
# Segments (null, 32-bit code, data, 64-bit code) and the pointer to them; gate 6 and the pointer to all seven
_SEGMENTS = "0000000000000000ffff0000009bcf00ffff00000093cf00ffff0000009baf001f00c0000f00"
_GATE = "b1001800008e0f000000000000000000"
_GATES_POINTER = "6f00f0000f00"
_JUMP_TO_START = "ea000000f0"
_PIECES = (
    (0x0, _REAL_MODE + _PAGE_TABLES + _LONG_MODE + _WORK + _HANDLER),
    (0xC0, _SEGMENTS),
    (0x150, _GATE),
    (0x160, _GATES_POINTER),
    (0xFFF0, _JUMP_TO_START),
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    boot_id: str
    identity: str
    works: bool
    reason: str = ""
    time_s: float = 0.0


async def choose(world: NodeWorld, places: Places, qemu: Emulator, hvparams: dict[str, Any]) -> str:
    """Give ``kvm`` or ``tcg``; raises `HypervisorError` if hardware is wanted and does not work."""
    if hvparams.get("kvm_flag") == "disabled":
        return TCG
    answer = await probe(world, places, qemu)
    if not answer.works:
        raise HypervisorError(f"Hardware virtualisation does not work on this node ({answer.reason}): {REMEDY}")
    return KVM


async def probe(world: NodeWorld, places: Places, qemu: Emulator) -> Answer:
    """Give what booting the ROM showed, booting it if nobody has since this node and QEMU are as they are."""
    boot_id = kernel_boot_id()
    known = _read(places.probe_file)
    if known is not None and known.boot_id == boot_id and known.identity == qemu.identity:
        fresh = 0 <= world.now_s() - known.time_s < _BAD_ANSWER_KEPT_S
        if known.works or fresh:
            return known
    reason = await _boot(world, places, qemu)
    answer = Answer(boot_id=boot_id, identity=qemu.identity, works=not reason, reason=reason, time_s=world.now_s())
    places.prepare()
    write_atomically(places.probe_file, msgspec.json.encode(answer), durable=False)
    return answer


def rom() -> bytes:
    """The 64 KiB the probe boots; it lies below 4 GiB and again at F0000."""
    image = bytearray(_ROM_BYTES)
    for offset, code in _PIECES:
        image[offset : offset + len(code) // 2] = bytes.fromhex(code)
    return bytes(image)


async def boots(world: NodeWorld, places: Places, qemu: Emulator, accelerator: str) -> str:
    """Boot the ROM; gives why it did not come to its end, or an empty string."""
    places.prepare()
    with tempfile.NamedTemporaryFile(dir=places.base, prefix=".probe-", suffix=".rom") as image:
        image.write(rom())
        image.flush()
        argv = [qemu.path, "-accel", accelerator, "-machine", "q35", "-m", "32", "-display", "none", "-nodefaults"]
        argv += ["-no-user-config", "-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-bios", image.name]
        try:
            done = await world.run(argv, timeout_s=_LIMIT_S, check=False)
        except CommandError:
            return f"a test guest that needs a moment did not end within {_LIMIT_S:g} s"
    if done.status == _SUCCESS:
        return ""
    last = done.output.splitlines()[-1] if done.output else f"status {done.status}"
    return f"a test guest did not boot: {last}"


async def _boot(world: NodeWorld, places: Places, qemu: Emulator) -> str:
    if not os.path.exists(DEVICE):
        return f"there is no {DEVICE}; the module kvm_intel or kvm_amd is not loaded, or the firmware disables it"
    return await boots(world, places, qemu, KVM)


def _read(path: str) -> Answer | None:
    try:
        with open(path, "rb") as source:
            return msgspec.json.decode(source.read(), type=Answer)
    except (OSError, *UNREADABLE_JSON):
        return None
