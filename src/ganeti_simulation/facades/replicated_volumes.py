# SPDX-License-Identifier: BSD-2-Clause
"""What stands for the tools of LVM 2 and of DRBD 9 on simulated machines: production's own words reach it.

A volume is a file ``/dev/xenvg/NAME`` of the machine's disk, so that it is there after a loss of power.
"""

import errno
import importlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.preparing import put_file
from ganeti_simulation.facades.mirrored_disks import has_word
from ganeti_simulation.facades.replicated_devices import (
    DISKLESS,
    INCONSISTENT,
    NEW,
    PRIMARY,
    UNKNOWN,
    UP,
    Device,
    Refused,
    Resources,
    keep,
    kept_in,
    write_word,
)
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine, here

GROUP: Final = "xenvg"
VOLUMES: Final = f"/dev/{GROUP}"
_MIB: Final = 1 << 20
_GROUP_MIB: Final = 1 << 20
_VERSION: Final = "DRBDADM_API_VERSION=2\nDRBD_KERNEL_VERSION_CODE=0x090107\n"


class Volumes:
    """The one volume group of a machine, by the words of LVM's tools."""

    def __init__(self, machine: Machine) -> None:
        self.disk = machine.disk

    def answer(self, words: Sequence[str]) -> str:
        tool, plain = words[0], [word for word in words[1:] if "/" in word or word == GROUP]
        where = plain[-1] if plain else ""
        if tool == "vgs":
            self._require_group(words[-1])
            return self._space_line()
        if tool == "pvs":
            self._require_group(words[-1].partition("=")[2])
            return "/dev/sda|" + self._space_line().rpartition("|")[0] + f"|{self._used_mib() * _MIB}|a--"
        if tool == "lvs":
            return self._list(words[words.index("-o") + 1], words[-1])
        if tool == "lvcreate":
            if "-s" in words:
                raise Refused("snapshots: not on this machine")
            self._create(words[words.index("-n") + 1], _mib(words))
        elif tool == "lvremove":
            self.disk.unlink(self._path(where))
        elif tool == "lvextend":
            self.disk.truncate(self._path(where), _mib(words) * _MIB)
        elif tool == "lvrename":
            old, new = words[-2:]
            self.disk.rename(self._path(f"{GROUP}/{old}"), f"{VOLUMES}/{new}")
        else:  # lvchange
            self._path(where)
        self._sync()
        return ""

    def names(self) -> list[str]:
        return sorted(self.disk.listdir(VOLUMES)) if self.disk.isdir(VOLUMES) else []

    def _list(self, columns: str, where: str) -> str:
        group, _, name = where.partition("/")
        self._require_group(group)
        if name:
            self._path(where)
        lines = []
        for each in [name] if name else self.names():
            if columns.startswith("vg_name"):
                lines.append(f"{GROUP}|{each}|{self._size(each)}|-wi-a-----||1|||/dev/sda(0)")
            else:
                lines.append(f"{each}|")
        return "\n".join(lines)

    def _create(self, name: str, size_mib: int) -> None:
        if self.disk.exists(f"{VOLUMES}/{name}"):
            raise Refused(f'Logical Volume "{name}" already exists in volume group "{GROUP}"')
        put_file(self.disk, f"{VOLUMES}/{name}", b"", 0o600)
        self.disk.truncate(f"{VOLUMES}/{name}", size_mib * _MIB)

    def _path(self, where: str) -> str:
        group, _, name = where.partition("/")
        self._require_group(group)
        if not self.disk.exists(f"{VOLUMES}/{name}"):
            raise Refused(f'Failed to find logical volume "{where}"')
        return f"{VOLUMES}/{name}"

    def _require_group(self, group: str) -> None:
        if group != GROUP:
            raise Refused(f'Volume group "{group}" not found')

    def _size(self, name: str) -> int:
        file = self.disk.open(f"{VOLUMES}/{name}", os.O_RDONLY, 0)
        size = file.fstat().st_size
        file.close()
        return size

    def _used_mib(self) -> int:
        return sum(self._size(name) for name in self.names()) // _MIB

    def _space_line(self) -> str:
        return f"{_GROUP_MIB * _MIB}|{(_GROUP_MIB - self._used_mib()) * _MIB}|{4 * _MIB}"

    def _sync(self) -> None:
        """LVM's tools end when what they did is durable."""
        if self.disk.isdir(VOLUMES):
            directory = self.disk.there(VOLUMES)
            directory.disk.sync(directory)
            for name in self.names():
                file = self.disk.open(f"{VOLUMES}/{name}", os.O_RDONLY, 0)
                file.fsync()
                file.close()


class Module(Resources):
    """DRBD of one machine, by the words of drbdsetup, drbdmeta and drbdadm."""

    def answer(self, words: Sequence[str]) -> str:
        if words[0] == "drbdadm":
            return _VERSION
        if words[0] == "drbdmeta":
            return self._metadata(list(words[1:]))
        plain = [word for word in words[2:] if not word.startswith("--")]
        given = {word[2:].partition("=")[0]: word.partition("=")[2] for word in words[2:] if word.startswith("--")}
        act: Callable[[list[str], dict[str, str]], str | None] = getattr(self, "_do_" + words[1].replace("-", "_"))
        for device in self.devices.values():
            self.look(device)
        return act(plain, given) or ""

    def _metadata(self, words: list[str]) -> str:
        words = [word for word in words if word != "--force"]
        volume, command = words[2], words[4]
        if command == "create-md":
            keep(self.machine.disk, volume, {"state": INCONSISTENT, "uuid": NEW, "history": []})
            return ""
        kept = kept_in(self.machine.disk, volume)
        if kept is None:
            raise Refused("No valid meta data found")
        stored = {UP: "Consistent"}.get(kept["state"], kept["state"])  # as drbdmeta calls it
        return f"{stored}\n" if command == "dstate" else ""

    # What is asked of drbdsetup

    def _do_new_resource(self, plain: list[str], given: dict[str, str]) -> None:
        if plain[0] in self.devices:
            raise Refused(f"{plain[0]}: Resource name already in use")
        self.devices[plain[0]] = Device(plain[0])

    def _do_new_minor(self, plain: list[str], given: dict[str, str]) -> None:
        if any(device.minor == int(plain[1]) for device in self.devices.values()):
            raise Refused(f"{plain[1]}: Minor exists already")
        self.find(plain[0]).minor = int(plain[1])

    def _do_attach(self, plain: list[str], given: dict[str, str]) -> None:
        device, kept = self.find(plain[0]), kept_in(self.machine.disk, plain[2])
        if device.state != DISKLESS or kept is None:
            raise Refused(f"{plain[0]}: Failure: it has a disk, or the volume has no data of DRBD")
        device.data, device.meta, device.state = plain[1], plain[2], kept["state"]
        device.linked = False
        self.look(device)

    def _do_detach(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        found = self.other_end(device)
        if device.role == PRIMARY and (found is None or found[1].state != UP):
            raise Refused(f"{plain[0]}: State change failed: (-2) Need access to UpToDate data")
        device.data, device.meta, device.state, device.copying_s = "", "", DISKLESS, None
        if found is not None:
            found[1].copying_s = None

    def _do_new_peer(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        device.secret, device.two = given["shared-secret"], given["allow-two-primaries"] == "yes"

    def _do_new_path(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        device.local, device.remote = plain[2:]

    def _do_connect(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        device.connecting, device.alone = True, False
        self.look(device)

    def _do_disconnect(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        found = self.other_end(device) if device.linked else None
        device.connecting = device.alone = False
        self.look(device)
        if found is not None:
            found[0].look(found[1])

    def _do_del_peer(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        device.local = device.remote = device.secret = ""

    def _do_peer_device_options(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])

    def _do_net_options(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        two, found = given["allow-two-primaries"] == "yes", self.other_end(device)
        if not two and device.role == PRIMARY and found is not None and found[1].role == PRIMARY:
            raise Refused(f"{plain[0]}: Failure: (139) Need allow-two-primaries")
        device.two = two

    def _do_primary(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        if device.role == PRIMARY:
            return
        found = self.other_end(device)
        if found is not None and found[1].role == PRIMARY and not (device.two and found[1].two):
            raise Refused(f"{plain[0]}: State change failed: (-1) Multiple primaries not allowed by config")
        good = device.state == UP or (found is not None and found[1].state == UP)
        if not good and ("force" not in given or device.state == DISKLESS):
            raise Refused(f"{plain[0]}: State change failed: (-2) Need access to UpToDate data")
        if not good:
            self.set_state(device, UP)
        device.role = PRIMARY
        if found is None:
            self.begin_anew(device)

    def _do_secondary(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0]).role = "Secondary"

    def _do_down(self, plain: list[str], given: dict[str, str]) -> None:
        device = self.find(plain[0])
        if device.role == PRIMARY:
            raise Refused(f"{plain[0]}: State change failed: (-12) Device is held open by someone")
        self._do_disconnect(plain, given)
        del self.devices[device.resource]

    def _do_resize(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])

    def _do_show(self, plain: list[str], given: dict[str, str]) -> str:
        device = self.find(plain[0])
        disk = f'disk "{device.data}";\n' if device.data else ""
        ends = f"_remote_host {device.remote.replace(':', ' ', 1)};\n" if device.remote else ""
        two = "allow-two-primaries yes;\n" if device.two else ""
        return f"resource {device.resource} {{\n{disk}{ends}{two}}}\n"

    def _do_status(self, plain: list[str], given: dict[str, str]) -> str:
        return json.dumps([self._status(device) for device in self.devices.values()])

    def _status(self, device: Device) -> dict[str, Any]:
        found = self.other_end(device)
        other = found[1] if found is not None else None
        replication = "Established" if other is not None else "Off"
        if device.copying_s is not None:
            replication = "SyncSource"
        elif other is not None and other.copying_s is not None:
            replication = "SyncTarget"
        peer = {
            "replication-state": replication,
            "peer-disk-state": UNKNOWN if other is None else other.state,
            "percent-in-sync": 50.0 if replication.startswith("Sync") else 100.0,
        }
        waiting = "Connecting" if device.connecting and not device.alone else "StandAlone"
        connection = {
            "connection-state": waiting if other is None else "Connected",
            "peer-role": "Unknown" if other is None else other.role,
            "peer_devices": [peer],
        }
        return {
            "name": device.resource,
            "role": device.role,
            "devices": [] if device.minor is None else [{"minor": device.minor, "disk-state": device.state}],
            "connections": [connection] if device.remote else [],
        }


LVM: Final = ("lvs", "pvs", "vgs", "lvcreate", "lvremove", "lvextend", "lvrename", "lvchange")
DRBD: Final = ("drbdsetup", "drbdmeta", "drbdadm")


def tools(module: Any) -> None:
    """In `ganeti.noded.world`, in place of those programs; a step of one is whole, for the kernel does it."""
    node_world = importlib.import_module("ganeti.ports.node_world")
    failed = importlib.import_module("ganeti.base.errors").CommandError
    inner = module.RealNodeWorld.run

    async def run(self: Any, argv: Sequence[str], **options: Any) -> Any:
        if argv[0] not in (*LVM, *DRBD):
            return await inner(self, argv, **options)
        Running.kernel.system_call()
        try:
            said = Volumes(here()).answer(argv) if argv[0] in LVM else Module(here()).answer(argv)
        except Refused as err:
            raise failed(f"{argv[0]} ended with status 10: {err}") from err
        except OSError as err:
            raise failed(f"{argv[0]} ended with status 5: {errno.errorcode.get(err.errno or 0, err)}") from err
        Running.kernel.system_call()
        return node_world.Completed(tuple(argv), 0, said, "")

    module.RealNodeWorld.run = run


def fill(disks: Iterable[Disk]) -> None:
    """Write something to the complete copies that are there, before what is played may lose it."""
    for disk in disks:
        for name in disk.listdir(VOLUMES) if disk.isdir(VOLUMES) else ():
            path = f"{VOLUMES}/{name}"
            kept = kept_in(disk, path.removesuffix("_data") + "_meta") if name.endswith("_data") else None
            if kept is not None and kept["state"] == UP:
                Running.kernel.local.setdefault("volumes written", {})[path] = None
                write_word(disk, path)


def is_complete(disk: Disk, data: str) -> bool:
    """Whether this copy says that it is complete, and is; *data* is the path of its volume."""
    kept = kept_in(disk, data.removesuffix("_data") + "_meta")
    return kept is not None and kept["state"] == UP and has_word(disk, data)


def _mib(words: Sequence[str]) -> int:
    return int(words[words.index("-L") + 1].removesuffix("m"))
