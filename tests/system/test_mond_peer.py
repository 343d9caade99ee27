# SPDX-License-Identifier: BSD-2-Clause
"""hbal and hinfo with measured CPU load beside Debian's, on small random clusters: every byte they say."""

import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.differential.execution import ours, peer

from ganeti.tools.htools.loading.mond import CPU, XEN_CPU

SEEDS = range(24)


@pytest.fixture(scope="module", autouse=True)
def beside() -> None:
    """Debian's tools; where they cannot be had there is nothing to compare with."""
    if not peer()[0]:
        pytest.skip(peer()[1])


def report(node: str, name: str, data: Any) -> dict[str, Any]:
    fields = {"version": "B", "format_version": 1, "timestamp": 1, "category": None, "kind": 0}
    return {"node": node, "reports": [{"name": name, **fields, "data": data}]}


def drawn(dice: random.Random, place: Path, *, xen: bool) -> Iterator[str]:
    """Write a cluster, the reports of its nodes and perhaps loads of its instances; gives the words that name them."""
    nodes = [f"n{number}.x" for number in range(dice.randint(2, 6))]
    memory, disk = dict.fromkeys(nodes, 16128), dict.fromkeys(nodes, 200000)
    own_instances: dict[str, list[str]] = {node: [] for node in nodes}
    lines = []
    for number in range(dice.randint(1, 16)):
        name, size, space = f"i{number}.x", dice.choice([128, 256, 1024]), dice.choice([1024, 5120])
        template = dice.choice(["drbd", "drbd", "plain", "rbd", "diskless"])
        primary = dice.choice(nodes)
        secondary = dice.choice([node for node in nodes if node != primary]) if template == "drbd" else ""
        state = dice.choice(["running"] * 6 + ["ADMIN_down", "ADMIN_offline", "ERROR_down"])
        coming = dice.choice("NNNNNNNNY")
        head = f"{name}|{size}|{space}|{dice.randint(1, 4)}|{state}|Y|{primary}|{secondary}"
        lines.append(f"{head}|{template}||1|-|{coming}")
        own_instances[primary].append(name)
        if coming == "N":
            memory[primary] -= size if state == "running" else 0
            for node in (primary, secondary) if template in ("drbd", "plain") else ():
                if node:
                    disk[node] -= space
    place.joinpath("cluster").write_text(
        "g1|g-uuid|preferred||\n\n"
        + "".join(
            f"{node}|16384|256|{memory[node]}|200000|{disk[node]}|{dice.choice([8, 16])}|"
            f"{dice.choice('NNNNNNNNNY')}|g-uuid|1||N|0|{dice.randint(0, 3)}|{dice.choice(['1.0', '1.5'])}\n"
            for node in nodes
        )
        + "\n"
        + "\n".join(lines)
        + "\n\n\n"
    )
    reports = []
    for node in nodes:
        total = dice.choice([0.0, 1.0, 0.3, dice.random() * 8])
        cpus = {"cpu_number": 2, "cpus": [total / 2] * 2, "cpu_total": total}
        domains = {name: dice.choice([0.1, 1, dice.random() * 3]) for name in own_instances[node]}
        reports.append(report(node, XEN_CPU, domains) if xen else report(node, CPU, cpus))
    if dice.random() < 0.1:
        reports.pop()
    place.joinpath("reports").write_text(json.dumps(reports))
    yield from ("-t", "cluster", "--mond", "--mond-data", "reports")
    if xen:
        yield "--mond-xen"
    if dice.random() < 0.1:
        yield "--ignore-dynu"


def said(command: Sequence[str], place: Path) -> tuple[int, str, str]:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_measured_load_counts_as_with_the_peer(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    tool = "hinfo" if seed % 4 == 3 else "hbal"
    words = [*drawn(dice, tmp_path, xen=seed % 4 == 1), *(("-p",) if tool == "hinfo" else ("-C",))]
    assert said([*ours(tool), *words], tmp_path) == said([*peer()[0], tool, *words], tmp_path)
