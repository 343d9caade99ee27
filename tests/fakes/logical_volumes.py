# SPDX-License-Identifier: BSD-2-Clause
"""LVM 2 on a machine whose kernel has no device mapper: the real tools keep the real metadata on loop devices, and this
stands in for the kernel: an active volume is a loop device over its extents.

A volume lies in one piece on one physical volume, or it has no device. A snapshot is a copy, a volume like any other
with the tag ``snapshot-of.ORIGIN``.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

TOOLS = (
    *("lvchange", "lvconvert", "lvcreate", "lvextend", "lvremove", "lvrename", "lvs"),
    *("pvchange", "pvs", "vgcreate", "vgreduce", "vgs"),
)


class StandIn:
    """The tools over the physical volumes *devices*; their locks lie in *directory*, devices of volumes in *dev*.

    It runs in the process of the test: an interpreter for each call would cost five times what the tool costs.
    """

    def __init__(self, program: str, directory: Path, devices: Sequence[str], dev: Path) -> None:
        self.program, self.dev, self.starts = program, dev, dict[str, int]()
        (directory / "locks").mkdir(parents=True)
        config = f'global{{locking_dir="{directory}/locks"}} backup{{backup=0 archive=0}}'
        self.fixed = ["--driverloaded", "n", "--devices", ",".join(devices), "--config", config]
        self.environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "LVM_SUPPRESS_FD_WARNINGS": "1"}
        libraries = os.environ.get("GANETI_LVM_LIBRARIES", "")
        self.environment |= {"LVM_SYSTEM_DIR": str(directory), "LD_LIBRARY_PATH": libraries}

    def call(self, command: str, words: list[str]) -> tuple[int, str, str]:
        """Give the exit status of a tool and what it prints, without what it warns of.

        What has no device, or is not there, fails as with a tool: what was done until then stays.
        """
        try:
            done = self._called(command, words)
        except (OSError, LookupError, ValueError, subprocess.SubprocessError) as err:
            return 5, "", f"{command} {words[-1]}: {err}"
        errors = "".join(line for line in done.stderr.splitlines(True) if "WARNING" not in line)
        return done.returncode, done.stdout, errors

    def _called(self, command: str, words: list[str]) -> "subprocess.CompletedProcess[str]":
        if command == "lvcreate":
            return self._create(words)
        if command == "lvconvert":
            return self._merge(words[-1])
        if command == "lvchange" and words[:2] == ["--activate", "y"]:
            return self._activate(words[-1])
        if command == "lvremove":
            self._remove_snapshots(words[-1])
            self._detach(words[-1])
        was_active = command in ("lvextend", "lvrename") and (self.dev / _named(command, words)).is_symlink()
        done = self._lvm(command, *words)
        if done.returncode == 0 and was_active:
            self._detach(_named(command, words))
            self._attach(f"{words[0]}/{words[2]}" if command == "lvrename" else _named(command, words))
        return done

    def _lvm(self, command: str, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [self.program, command, *self.fixed, *words]
        return subprocess.run(argv, capture_output=True, text=True, env=self.environment)

    def _rows(self, command: str, names: str, *where: str) -> list[list[str]]:
        form = ["--noheadings", "--nosuffix", "--units", "b", "--separator", "|", "-o", names]
        said = self._lvm(command, *form, *where).stdout
        return [line.strip().split("|") for line in said.splitlines() if line.strip()]

    def _attach(self, volume: str) -> None:
        """A loop device over the extents, which are in one piece."""
        rows = self._rows("lvs", "seg_pe_ranges,vg_extent_size,lv_size", volume)
        if len(rows) != 1 or " " in rows[0][0]:
            return
        (where, extent, size), link = rows[0], self.dev / volume
        device, _, extents = where.partition(":")
        if device not in self.starts:
            self.starts = {name.strip(): int(start) for name, start in self._rows("pvs", "pv_name,pe_start")}
        first = self.starts[device] + int(extents.partition("-")[0]) * int(extent)
        words = ["losetup", "-f", "--show", "-o", str(first), "--sizelimit", size, device]
        made = subprocess.run(words, capture_output=True, text=True, check=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        self._detach(volume)
        link.symlink_to(made.stdout.strip())

    def _detach(self, volume: str) -> None:
        link = self.dev / volume
        if link.is_symlink():
            subprocess.run(["losetup", "-d", os.readlink(link)], capture_output=True)
            link.unlink()

    def _content(self, volume: str) -> bytes:
        return (self.dev / volume).read_bytes()

    def _fill(self, volume: str, data: bytes) -> None:
        with (self.dev / volume).open("r+b", buffering=0) as device:
            device.write(data)
            os.fsync(device.fileno())

    def _activate(self, volume: str) -> "subprocess.CompletedProcess[str]":
        done = self._lvm("lvs", "--noheadings", "-o", "lv_name", volume)
        if done.returncode:
            return done
        if not (self.dev / volume).is_symlink():
            self._attach(volume)
        return subprocess.CompletedProcess([], 0, "", "")

    def _create(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        snapshot = "-s" in words
        words = [word for word in words if word not in ("--wipesignatures", "y", "-s")]
        name = words[words.index("-n") + 1]
        group = words[-1].partition("/")[0] if snapshot else words[words.index("-n") + 2]
        if not snapshot and "-i" in words:
            group = words[words.index("-i") + 2]
        origin = words[-1].partition("/")[2]
        if snapshot:
            words[-1] = group
            size = self._rows("lvs", "lv_size", f"{group}/{origin}")[0][0]
            place = words.index("-l")
            words[place : place + 2] = ["-L", f"{size}b"]
            words += ["--addtag", f"snapshot-of.{origin}"]
        done = self._lvm("lvcreate", "-an", "-Zn", "-Wn", *words)
        if done.returncode:
            return done
        self._attach(f"{group}/{name}")
        if snapshot:
            self._fill(f"{group}/{name}", self._content(f"{group}/{origin}"))
        elif (self.dev / group / name).exists():
            self._fill(f"{group}/{name}", bytes(4096))
        return done

    def _remove_snapshots(self, volume: str) -> None:
        group, _, origin = volume.partition("/")
        for name, tags in self._rows("lvs", "lv_name,lv_tags", group):
            if f"snapshot-of.{origin}" in tags.split(","):
                self._detach(f"{group}/{name}")
                self._lvm("lvremove", "-f", f"{group}/{name}")

    def _merge(self, volume: str) -> "subprocess.CompletedProcess[str]":
        group = volume.partition("/")[0]
        tags = self._rows("lvs", "lv_tags", volume)[0][0].split(",")
        [origin] = [tag.removeprefix("snapshot-of.") for tag in tags if tag.startswith("snapshot-of.")]
        self._fill(f"{group}/{origin}", self._content(volume))
        self._detach(volume)
        return self._lvm("lvremove", "-f", volume)


def _named(command: str, words: list[str]) -> str:
    if command == "lvrename":
        return f"{words[0]}/{words[1]}"
    return next(word for word in words if "/" in word and not word.startswith("/"))
