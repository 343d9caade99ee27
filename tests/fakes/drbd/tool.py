#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""DRBD on a machine whose kernel does not have it: called as drbdsetup, drbdmeta or drbdadm, it stands in for the
kernel modules of several nodes, which share one file of states.

``settings.json`` beside it names the node, the file, and the version that the module is said to have. Options are
those that the real tools' own help lists (``options.json``). Two devices are connected when each names the other's
address, with the same secret; then what the primary writes is in the other copy as soon as any tool is called next. A
copy that is behind is complete after its state was asked for twice. DRBD's own data are a line at the start of their
volume, so that they go with it.
"""

import contextlib
import fcntl
import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(os.path.realpath(__file__)).parent
NEW = "4"
UP, INCONSISTENT, OUTDATED, DISKLESS, UNKNOWN = "UpToDate", "Inconsistent", "Outdated", "Diskless", "DUnknown"
STORED = {UP: "Consistent"}
"""How drbdmeta calls it: whether the other node has newer data it cannot know."""
META_BYTES = 4096
STEP_PERCENT = 50.0


class Refused(Exception):
    """What the tool prints, and its exit status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Module:
    """The kernel modules of all nodes, as one of them calls them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.node: str = settings["node"]
        self.version: str = settings["version"]
        self.nine = self.version.startswith("9")
        self.options = json.loads((Path(settings["options"])).read_text())["9" if self.nine else "8.4"]
        self.all: dict[str, dict[str, dict[str, Any]]] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        path = Path(self.settings["states"])
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.all = json.loads(path.read_text()) if path.exists() else {}
            self.all.setdefault(self.node, {})
            self._forget_before_boot()
            self._replicate()
            yield
            self._show_devices()
            path.with_suffix(".new").write_text(json.dumps(self.all, indent=1))
            os.replace(path.with_suffix(".new"), path)

    @property
    def mine(self) -> dict[str, dict[str, Any]]:
        return self.all[self.node]

    def _forget_before_boot(self) -> None:
        """What a kernel held is gone with its power; a node that is off has the file ``off-NODE`` beside the states."""
        boot = os.readlink("/proc/self/ns/pid")
        where = Path(self.settings["states"]).parent
        for node in list(self.all):
            if (where / f"off-{node}").exists():
                for found in self.all[node].values():
                    self._lose(node, found)
                self.all[node] = {}
        for found in self.mine.values():
            if found["boot"] != boot:
                for each in self.mine.values():
                    self._lose(self.node, each)
                self.all[self.node] = {}
                break

    def _lose(self, node: str, found: dict[str, Any]) -> None:
        other = self._peer(found)
        if other is not None:
            other["connection"] = "waiting"
            self._begin_anew(other)

    def find(self, key: str) -> dict[str, Any]:
        for found in self.mine.values():
            if key in (found["resource"], str(found["minor"])):
                return found
        raise Refused(10, f"{key}: No such resource")

    def _peer(self, found: dict[str, Any]) -> dict[str, Any] | None:
        """The device at the other end, where both are connected."""
        if found["connection"] != "connected":
            return None
        return self._other_end(found)

    def _other_end(self, found: dict[str, Any]) -> dict[str, Any] | None:
        net = found["net"]
        for devices in self.all.values():
            for other in devices.values():
                end = other["net"]
                if net and end and (end["local"], end["remote"]) == (net["remote"], net["local"]):
                    return other
        return None

    def _replicate(self) -> None:
        for devices in self.all.values():
            for found in devices.values():
                other = self._peer(found)
                if other is None or found["role"] != "Primary" or other["role"] == "Primary":
                    continue
                if found["disk"] == UP and other["disk"] == UP and found["sync"] is None:
                    copy(found["data"], other["data"])

    def _begin_anew(self, found: dict[str, Any]) -> None:
        """A primary without the other copy begins another generation."""
        if found["role"] == "Primary" and found["disk"] == UP:
            meta = read_meta(found["meta"])
            assert meta is not None
            meta["history"].append(meta["uuid"])
            meta["uuid"] = uuid.uuid4().hex
            write_meta(found["meta"], meta)

    # what tools are asked

    def setup(self, command: str, words: list[str]) -> str:
        plain = [word for word in words if not word.startswith("--")]
        given = {word[2:].partition("=")[0]: word.partition("=")[2] for word in words if word.startswith("--")}
        known = self.options.get(command)
        if known is None:
            raise Refused(20, f"drbdsetup: invalid command {command}")
        if unknown := sorted(set(given) - set(known["options"])):
            raise Refused(20, f"drbdsetup {command}: unrecognized option '--{unknown[0]}'")
        if len(plain) != known["arguments"] and command != "status":
            raise Refused(20, f"drbdsetup {command}: wrong number of arguments: {plain}")
        return str(getattr(self, "do_" + command.replace("-", "_"))(plain, given) or "")

    def do_new_resource(self, plain: list[str], given: dict[str, str]) -> None:
        if any(found["resource"] == plain[0] for found in self.mine.values()):
            raise Refused(10, f"{plain[0]}: Resource name already in use")
        self.mine[plain[0]] = {
            "resource": plain[0],
            "minor": None,
            "id": int(plain[1]) if self.nine else None,
            "boot": os.readlink("/proc/self/ns/pid"),
            "role": "Secondary",
            "disk": DISKLESS,
            "data": None,
            "meta": None,
            "net": None,
            "peers": {},
            "connection": "none",
            "sync": None,
        }

    def do_new_minor(self, plain: list[str], given: dict[str, str]) -> None:
        if any(found["minor"] == int(plain[1]) for found in self.mine.values()):
            raise Refused(10, f"{plain[1]}: Minor exists already")
        self.find(plain[0])["minor"] = int(plain[1])

    def do_attach(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        if found["disk"] != DISKLESS:
            raise Refused(10, f"{plain[0]}: Failure: (124) Device is attached to a disk (use detach first)")
        meta = read_meta(plain[2])
        if meta is None or meta["format"] != ("v09" if self.nine else "v08"):
            raise Refused(10, f"{plain[0]}: Failure: (119) No valid meta-data signature found.")
        if not os.path.exists(plain[1]):
            raise Refused(10, f"{plain[0]}: Failure: (104) Can not open backing device.")
        found |= {"data": plain[1], "meta": plain[2], "disk": meta["state"]}
        if found["connection"] == "connected":
            self._meet(found)

    def do_detach(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        other = self._peer(found)
        if found["role"] == "Primary" and (other is None or other["disk"] != UP):
            raise Refused(17, f"{plain[0]}: State change failed: (-2) Need access to UpToDate data")
        found |= {"disk": DISKLESS, "data": None, "meta": None, "sync": None}
        if other is not None:
            other["sync"] = None

    # version 8.4

    def do_connect(self, plain: list[str], given: dict[str, str]) -> None:
        if self.nine:
            found, net = self.find(plain[0]), self.find(plain[0])["peers"][plain[1]]
            if "local" not in net:
                raise Refused(10, f"{plain[0]}: No path to the peer")
        else:
            found, net = self.find(plain[0]), {"local": plain[1], "remote": plain[2]} | net_of(given)
        if found["net"] is not None:
            raise Refused(10, f"{plain[0]}: Failure: (125) Device has a net-config (use disconnect first)")
        found |= {"net": net, "connection": "waiting"}
        other = self._other_end(found)
        if other is None or other["connection"] != "waiting":
            return
        if any(net[key] != other["net"][key] for key in ("secret", "digest", "protocol", "two")):
            found["connection"] = other["connection"] = "standalone"
            return
        found["connection"] = other["connection"] = "connected"
        self._meet(found)

    def _meet(self, found: dict[str, Any]) -> None:
        """Whose copy is newer, by what both have noted."""
        other = self._peer(found)
        if other is None or found["disk"] == DISKLESS or other["disk"] == DISKLESS:
            return
        own, its = read_meta(found["meta"]), read_meta(other["meta"])
        assert own is not None and its is not None
        if own["uuid"] == its["uuid"]:
            if own["uuid"] == NEW:
                return
            for one, another in ((found, other), (other, found)):
                if one["disk"] == UP and another["disk"] != UP:
                    self._sync(one, another)
        elif its["uuid"] == NEW or its["uuid"] in own["history"]:
            self._sync(found, other)
        elif own["uuid"] == NEW or own["uuid"] in its["history"]:
            self._sync(other, found)
        else:
            found["connection"] = other["connection"] = "standalone"

    def _sync(self, source: dict[str, Any], target: dict[str, Any]) -> None:
        source["sync"], target["sync"] = ["SyncSource", 0.0], ["SyncTarget", 0.0]
        self._state(target, INCONSISTENT)

    def _state(self, found: dict[str, Any], state: str) -> None:
        found["disk"] = state
        meta = read_meta(found["meta"])
        assert meta is not None
        write_meta(found["meta"], meta | {"state": state})

    def advance(self) -> None:
        for found in self.mine.values():
            other = self._peer(found)
            if found["sync"] is None or other is None:
                continue
            found["sync"][1] = other["sync"][1] = found["sync"][1] + STEP_PERCENT
            if found["sync"][1] <= 100.0:
                continue
            source, target = (found, other) if found["sync"][0] == "SyncSource" else (other, found)
            copy(source["data"], target["data"])
            write_meta(target["meta"], read_meta(source["meta"]) | {"state": UP})
            target["disk"], source["sync"], target["sync"] = UP, None, None

    def do_disconnect(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0]) if self.nine else self._of_address(*plain)
        self._disconnect(found)

    def _of_address(self, local: str, remote: str) -> dict[str, Any]:
        for found in self.mine.values():
            if found["net"] and (found["net"]["local"], found["net"]["remote"]) == (local, remote):
                return found
        raise Refused(10, f"{local} {remote}: No such connection")

    def _disconnect(self, found: dict[str, Any]) -> None:
        other = self._peer(found)
        found |= {"net": None, "connection": "none", "sync": None}
        self._begin_anew(found)
        if other is not None:
            other |= {"connection": "waiting", "sync": None}
            self._begin_anew(other)

    def do_disk_options(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])

    def do_net_options(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0]) if self.nine else self._of_address(*plain)
        other = self._peer(found)
        two = given.get("allow-two-primaries") in ("yes", "")
        if not two and found["role"] == "Primary" and other is not None and other["role"] == "Primary":
            raise Refused(10, f"{plain[0]}: Failure: (139) Need allow-two-primaries")
        found["net"]["two"] = two

    # version 9

    def do_new_peer(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        if plain[1] in found["peers"]:
            raise Refused(10, f"{plain[0]}: Peer exists already")
        found["peers"][plain[1]] = net_of(given)

    def do_new_path(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])["peers"][plain[1]] |= {"local": plain[2], "remote": plain[3]}

    def do_peer_device_options(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])["peers"][plain[1]]["resync"] = given

    def do_del_peer(self, plain: list[str], given: dict[str, str]) -> None:
        if self.find(plain[0])["net"] is not None:
            raise Refused(10, f"{plain[0]}: Connection is still there")
        del self.find(plain[0])["peers"][plain[1]]

    # both

    def do_primary(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        other = self._peer(found)
        if found["role"] == "Primary":
            return
        if other is not None and other["role"] == "Primary" and not (found["net"]["two"] and other["net"]["two"]):
            raise Refused(11, f"{plain[0]}: State change failed: (-1) Multiple primaries not allowed by config")
        good = found["disk"] == UP or (other is not None and other["disk"] == UP)
        if not good and "force" not in given:
            raise Refused(17, f"{plain[0]}: State change failed: (-2) Need access to UpToDate data")
        if not good and found["disk"] == DISKLESS:
            raise Refused(17, f"{plain[0]}: State change failed: (-2) Need access to UpToDate data")
        if not good:
            self._state(found, UP)
        found["role"] = "Primary"
        if other is None:
            self._begin_anew(found)
        elif not good:
            self._sync(found, other)

    def do_secondary(self, plain: list[str], given: dict[str, str]) -> None:
        self.find(plain[0])["role"] = "Secondary"

    def do_down(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        if found["role"] == "Primary":
            raise Refused(11, f"{plain[0]}: State change failed: (-12) Device is held open by someone")
        self._disconnect(found)
        del self.mine[found["resource"]]

    def do_resize(self, plain: list[str], given: dict[str, str]) -> None:
        found = self.find(plain[0])
        other = self._peer(found)
        if found["role"] != "Primary" and (other is None or other["role"] != "Primary"):
            raise Refused(10, f"{plain[0]}: Failure: (131) Need one Primary node to resize.")

    def do_show(self, plain: list[str], given: dict[str, str]) -> str:
        found = self.find(plain[0])
        net = found["net"] or next((end for end in found["peers"].values() if "local" in end), None)
        host = f"        volume 0 {{\n            device\t\tminor {found['minor']};\n"
        if found["data"] is not None:
            host += f'            disk\t\t"{found["data"]}";\n            meta-disk\t\t"{found["meta"]}" [ 0 ];\n'
        host = f"    _this_host {{\n{host}            disk {{\n            }}\n        }}\n    }}\n"
        if net is None:
            return f"resource {plain[0]} {{\n{host}}}\n"
        two = "        allow-two-primaries\tyes;\n" if net["two"] else ""
        if self.nine:
            ends = "".join(
                f"            _{end}_host {net[key].replace(':', ' ', 1)};\n"
                for end, key in (("this", "local"), ("remote", "remote"))
            )
            return (
                f"resource {plain[0]} {{\n{host}    connection {{\n        path {{\n{ends}        }}\n        net {{\n"
                f'            shared-secret\t"{net["secret"]}";\n{two}        }}\n    }}\n}}\n'
            )
        remote = net["remote"].replace(":", " ", 1)
        return (
            f'resource {plain[0]} {{\n    net {{\n        shared-secret\t"{net["secret"]}";\n{two}    }}\n'
            f"    _remote_host {{\n        address\t\t\t{remote};\n    }}\n{host}}}\n"
        )

    def do_status(self, plain: list[str], given: dict[str, str]) -> str:
        self.advance()
        return json.dumps([self._status(found) for found in self.mine.values()])

    def _status(self, found: dict[str, Any]) -> dict[str, Any]:
        other = self._peer(found)
        replication, percent = found["sync"] or (("Established" if other else "Off"), 100.0)
        peer_device = {
            "volume": 0,
            "replication-state": replication,
            "peer-disk-state": other["disk"] if other else UNKNOWN,
            "has-sync-details": found["sync"] is not None,
            "percent-in-sync": percent,
        }
        if found["sync"] is not None:
            peer_device |= {"estimated-seconds-to-finish": 7, "percent-resync-done": percent}
        states = {"connected": "Connected", "waiting": "Connecting", "standalone": "StandAlone", "none": "StandAlone"}
        connection = {
            "peer-node-id": 1 - found["id"],
            "name": "peer",
            "connection-state": states[found["connection"]],
            "peer-role": other["role"] if other else "Unknown",
            "peer_devices": [peer_device],
        }
        return {
            "name": found["resource"],
            "node-id": found["id"],
            "role": found["role"],
            "devices": [] if found["minor"] is None else [{"minor": found["minor"], "disk-state": found["disk"]}],
            "connections": [connection] if found["peers"] else [],
        }

    def proc(self) -> str:
        """``/proc/drbd``, which has no devices in version 9."""
        lines = [f"version: {self.version} (api:1/proto:86-101)", "srcversion: 0123456789ABCDEF"]
        for found in sorted(self.mine.values(), key=lambda each: each["minor"] or 0):
            if self.nine or found["minor"] is None:
                continue
            other = self._peer(found)
            states = {"waiting": "WFConnection", "connected": "Connected"}
            connection = found["sync"][0] if found["sync"] else states.get(found["connection"], "StandAlone")
            roles = f"{found['role']}/{other['role'] if other else 'Unknown'}"
            disks = f"{found['disk']}/{other['disk'] if other else UNKNOWN}"
            lines.append(f"{found['minor']:2}: cs:{connection} ro:{roles} ds:{disks} {'C' if other else ' '} r-----")
            lines.append("    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0")
            if found["sync"]:
                lines.append(f"\t[===>......] sync'ed: {found['sync'][1]:.1f}% (512/1024)K")
                lines.append("\tfinish: 0:00:07 speed: 6,020 (6,020) K/sec")
        return "\n".join(lines) + "\n"

    def _show_devices(self) -> None:
        """The devices of this node, as links to the volumes that hold what they show; and ``/proc/drbd``."""
        dev = Path(self.settings["dev"])
        for link in dev.glob("drbd[0-9]*"):
            link.unlink()
        for found in self.mine.values():
            other = self._peer(found)
            data = found["data"] or (other["data"] if other else None)
            if found["minor"] is not None and data is not None:
                (dev / f"drbd{found['minor']}").symlink_to(data)
        if proc := self.settings.get("proc"):
            Path(proc).parent.mkdir(exist_ok=True)
            Path(proc).write_text(self.proc())

    def meta(self, words: list[str]) -> str:
        forced = words[0] == "--force"
        minor, form, device, index, command, *rest = words[1:] if forced else words
        if form != ("v09" if self.nine else "v08") or index != "0" or not minor.isdigit():
            raise Refused(20, f"drbdmeta: not the format of this version: {words}")
        found = read_meta(device)
        if command == "create-md":
            if not forced or rest != (["1"] if self.nine else []):
                raise Refused(20, f"drbdmeta create-md: wrong arguments: {words}")
            write_meta(device, {"format": form, "state": INCONSISTENT, "uuid": NEW, "history": []})
            return "New drbd meta data block successfully created.\n"
        if found is None:
            raise Refused(1, "No valid meta data found")
        if command not in ("dstate", "apply-al"):
            raise Refused(20, f"drbdmeta: unknown command {command}")
        return f"{STORED.get(found['state'], found['state'])}\n" if command == "dstate" else ""


def net_of(given: dict[str, str]) -> dict[str, Any]:
    return {
        "secret": given["shared-secret"],
        "digest": given["cram-hmac-alg"],
        "protocol": given["protocol"],
        "two": given.get("allow-two-primaries") == "yes",
    }


def read_meta(device: str) -> dict[str, Any] | None:
    with open(device, "rb") as file:
        line = file.read(META_BYTES).partition(b"\n")[0]
    return json.loads(line) if line.startswith(b'{"format"') else None


def write_meta(device: str, meta: dict[str, Any]) -> None:
    with open(device, "r+b", buffering=0) as file:
        file.write((json.dumps(meta) + "\n").encode().ljust(META_BYTES, b"\0"))
        os.fsync(file.fileno())


def copy(source: str, target: str) -> None:
    with open(source, "rb") as file, open(target, "r+b", buffering=0) as other:
        size = min(file.seek(0, os.SEEK_END), other.seek(0, os.SEEK_END))
        file.seek(0)
        other.seek(0)
        for _ in range(0, size, 2**20):
            other.write(file.read(2**20)[:size])
        os.fsync(other.fileno())


def call(settings: dict[str, Any], program: str, words: list[str]) -> tuple[int, str]:
    """Run one of the tools; gives its exit status and what it prints."""
    module = Module(settings)
    try:
        with module.opened():
            if program == "drbdmeta":
                return 0, module.meta(words)
            if program == "drbdadm":
                major, minor, patch = (int(part) for part in module.version.split(".")[:3])
                return 0, f"DRBDADM_API_VERSION=2\nDRBD_KERNEL_VERSION_CODE=0x{major:02x}{minor:02x}{patch:02x}\n"
            return 0, module.setup(words[0], words[1:])
    except Refused as err:
        return err.status, f"{err}\n"


def main() -> int:
    settings = {"options": str(HERE / "options.json")} | json.loads((HERE / "settings.json").read_text())
    status, said = call(settings, Path(sys.argv[0]).name, sys.argv[1:])
    (sys.stderr if status else sys.stdout).write(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
