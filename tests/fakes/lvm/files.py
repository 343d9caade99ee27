#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tools of LVM 2 over one volume group of sparse files, for nodes of a testbed: called by the tools' names.

What is printed has the columns that are asked for, as the real tools print them; the suite of the driver
(`tests/contract/test_plain.py`) runs with the real ones.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SETTINGS = json.loads((Path(os.path.realpath(__file__)).parent / "settings.json").read_text())
PLACE = Path(SETTINGS["volumes"])
GROUP, SIZE, EXTENT = "xenvg", 40960 * 2**20, 2**20
DEV = Path("/dev") / GROUP


def volumes() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(PLACE.glob("*.json"))}


def keep(name: str, tags: list[str]) -> None:
    (PLACE / f"{name}.json").write_text(json.dumps({"tags": tags}))


def data(name: str) -> Path:
    return PLACE / f"{name}.volume"


def show(name: str) -> None:
    DEV.mkdir(exist_ok=True)
    if not (DEV / name).is_symlink():
        (DEV / name).symlink_to(data(name))


def option(words: list[str], *names: str) -> str:
    return next((words[words.index(name) + 1] for name in names if name in words), "")


def size_of(text: str) -> int:
    mib = int(text.rstrip("mM"))
    return mib * 2**20


def used() -> int:
    return sum(data(name).stat().st_size for name in volumes())


def row(columns: str, name: str = "") -> str:
    values: dict[str, Any] = {
        "vg_name": GROUP,
        "vg_size": SIZE,
        "vg_free": SIZE - used(),
        "vg_extent_size": EXTENT,
        "pv_name": "/dev/sdz",
        "pv_size": SIZE,
        "pv_free": SIZE - used(),
        "pv_used": used(),
        "pv_attr": "a--",
    }
    if name:
        values |= {
            "lv_name": name,
            "lv_size": data(name).stat().st_size,
            "lv_attr": "-wi-a-----",
            "lv_tags": ",".join(volumes()[name]["tags"]),
            "stripes": 1,
            "devices": "/dev/sdz(0)",
        }
    return "  " + "|".join(str(values.get(column, "")) for column in columns.split(","))


def listed(command: str, words: list[str]) -> tuple[int, str]:
    columns = option(words, "-o")
    where = words[-1]
    if command == "pvs":
        return 0, row(columns)
    group, _, name = where.partition("/")
    if group not in (GROUP, columns):
        return 5, f'Volume group "{group}" not found'
    if command == "vgs":
        text = row(columns)
        return 0, f"  {SIZE // 2**20}" if "--units=m" in words else text
    if name and name not in volumes():
        return 5, f'Failed to find logical volume "{where}"'
    return 0, "\n".join(row(columns, each) for each in volumes() if not name or each == name)


def create(words: list[str]) -> tuple[int, str]:
    name, size = option(words, "-n"), size_of(option(words, "-L"))
    if name in volumes():
        return 5, f'Logical Volume "{name}" already exists'
    with open(data(name), "wb") as file:
        file.truncate(size)
    keep(name, [])
    show(name)
    return 0, ""


def change(command: str, words: list[str]) -> tuple[int, str]:
    name = words[-1].partition("/")[2]
    if command == "lvrename":
        _, name, wanted = words
        data(name).rename(data(wanted))
        (PLACE / f"{name}.json").rename(PLACE / f"{wanted}.json")
        (DEV / name).unlink(missing_ok=True)
        show(wanted)
        return 0, ""
    if command == "lvextend":
        name = next(word for word in words if word.startswith(f"{GROUP}/")).partition("/")[2]
    if name not in volumes():
        return 5, f'Failed to find logical volume "{GROUP}/{name}"'
    if command == "lvremove":
        for path in (data(name), PLACE / f"{name}.json", DEV / name):
            path.unlink(missing_ok=True)
    elif command == "lvextend":
        os.truncate(data(name), size_of(option(words, "-L")))
    else:
        tags = [tag for tag in volumes()[name]["tags"] if tag != option(words, "--deltag")]
        keep(name, [*tags, *filter(None, [option(words, "--addtag")])])
        show(name)
    return 0, ""


def main() -> int:
    command, words = Path(sys.argv[0]).name, sys.argv[1:]
    PLACE.mkdir(parents=True, exist_ok=True)
    if command in ("lvs", "vgs", "pvs"):
        status, said = listed(command, words)
    elif command == "lvcreate":
        status, said = create(words)
    else:
        status, said = change(command, words)
    if said:
        print(said, file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
