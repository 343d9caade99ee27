#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""LVM 2 on a machine whose kernel has no device mapper: the real tools keep the real metadata on loop devices, and this
program, called by the names of the tools, stands in for the kernel: an active volume is a loop device over its extents.

``settings.json`` beside it says where all is. A volume lies in one piece on one physical volume, or it has no device.
A snapshot is a copy, a volume like any other with the tag ``snapshot-of.ORIGIN``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(os.path.abspath(__file__)).parent
SETTINGS = json.loads((HERE / "settings.json").read_text())
DEV = Path(SETTINGS["dev"])


def lvm(command: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "LVM_SUPPRESS_FD_WARNINGS": "1"}
    environment |= {"LVM_SYSTEM_DIR": str(HERE), "LD_LIBRARY_PATH": SETTINGS.get("library", "")}
    config = f'global{{locking_dir="{HERE}/locks"}} backup{{backup=0 archive=0}}'
    fixed = ["--driverloaded", "n", "--devices", ",".join(SETTINGS["devices"]), "--config", config]
    return subprocess.run([SETTINGS["lvm"], command, *fixed, *words], capture_output=True, text=True, env=environment)


def columns(volume: str, names: str) -> list[list[str]]:
    said = lvm("lvs", "--noheadings", "--nosuffix", "--units", "b", "--separator", "|", "-o", names, volume)
    return [line.strip().split("|") for line in said.stdout.splitlines() if line.strip()]


def attach(volume: str) -> None:
    """A loop device over the extents, which are in one piece."""
    rows = columns(volume, "seg_pe_ranges,vg_extent_size,lv_size")
    if len(rows) != 1 or " " in rows[0][0]:
        return
    (where, extent, size), link = rows[0], DEV / volume
    device, _, extents = where.partition(":")
    first = int(extents.partition("-")[0])
    [start] = [
        line.split("|")[1]
        for line in lvm(
            "pvs", "--noheadings", "--nosuffix", "--units", "b", "--separator", "|", "-o", "pv_name,pe_start"
        )
        .stdout.replace(" ", "")
        .splitlines()
        if line.startswith(f"{device}|")
    ]
    place = ["-o", str(int(start) + first * int(extent)), "--sizelimit", size]
    made = subprocess.run(["losetup", "-f", "--show", *place, device], capture_output=True, text=True, check=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    detach(volume)
    link.symlink_to(made.stdout.strip())


def detach(volume: str) -> None:
    link = DEV / volume
    if link.is_symlink():
        subprocess.run(["losetup", "-d", os.readlink(link)], capture_output=True)
        link.unlink()


def content(volume: str) -> bytes:
    return (DEV / volume).read_bytes()


def fill(volume: str, data: bytes) -> None:
    with (DEV / volume).open("r+b", buffering=0) as device:
        device.write(data)
        os.fsync(device.fileno())


def main() -> int:
    command, words = Path(sys.argv[0]).name, sys.argv[1:]
    if command == "lvcreate":
        return create(words)
    if command == "lvconvert":
        return merge(words[-1])
    if command == "lvchange" and words[:2] == ["--activate", "y"]:
        if not columns(words[-1], "lv_name"):
            return tell(lvm("lvs", words[-1]))
        if not (DEV / words[-1]).is_symlink():
            attach(words[-1])
        return 0
    if command == "lvremove":
        group, _, origin = words[-1].partition("/")
        for name, tags in columns(group, "lv_name,lv_tags"):
            if f"snapshot-of.{origin}" in tags.split(","):
                detach(f"{group}/{name}")
                lvm("lvremove", "-f", f"{group}/{name}")
        detach(words[-1])
    was_active = command in ("lvextend", "lvrename") and (DEV / _named(command, words)).is_symlink()
    done = lvm(command, *words)
    if done.returncode == 0 and was_active:
        detach(_named(command, words))
        attach(f"{words[0]}/{words[2]}" if command == "lvrename" else _named(command, words))
    return tell(done)


def _named(command: str, words: list[str]) -> str:
    if command == "lvrename":
        return f"{words[0]}/{words[1]}"
    return next(word for word in words if "/" in word and not word.startswith("/"))


def create(words: list[str]) -> int:
    snapshot = "-s" in words
    words = [word for word in words if word not in ("--wipesignatures", "y", "-s")]
    name = words[words.index("-n") + 1]
    group = words[-1].partition("/")[0] if snapshot else words[words.index("-n") + 2]
    if not snapshot and "-i" in words:
        group = words[words.index("-i") + 2]
    if snapshot:
        origin = words[-1].partition("/")[2]
        words[-1] = group
        size = columns(f"{group}/{origin}", "lv_size")[0][0]
        words[words.index("-L") + 1] = f"{size}b"
        words += ["--addtag", f"snapshot-of.{origin}"]
    done = lvm("lvcreate", "-an", "-Zn", "-Wn", *words)
    if done.returncode:
        return tell(done)
    attach(f"{group}/{name}")
    if snapshot:
        fill(f"{group}/{name}", content(f"{group}/{origin}"))
    elif (DEV / group / name).exists():
        fill(f"{group}/{name}", bytes(4096))
    return tell(done)


def merge(volume: str) -> int:
    group = volume.partition("/")[0]
    [tag] = [tag for tag in columns(volume, "lv_tags")[0][0].split(",") if tag.startswith("snapshot-of.")]
    fill(f"{group}/{tag.removeprefix('snapshot-of.')}", content(volume))
    detach(volume)
    return tell(lvm("lvremove", "-f", volume))


def tell(done: "subprocess.CompletedProcess[str]") -> int:
    sys.stdout.write(done.stdout)
    sys.stderr.write("".join(line for line in done.stderr.splitlines(True) if "WARNING" not in line))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
