# SPDX-License-Identifier: BSD-2-Clause
"""Every step of moving data away meets every fault in a test, and `docs/operator/backup.md` says what an operator sees.

A cell of the table there has a letter, which its legend explains; here is what shows it: a test, or a case of the
simulator, which hits jobs, daemons and nodes at every point. What nothing shows yet is a dash there and empty here.
"""

from __future__ import annotations

import ast
from pathlib import Path

from ganeti_simulation.crashes.campaign import VICTIMS
from ganeti_simulation.crashes.cases import CASES

TREE = Path(__file__).resolve().parents[2]
PAGE = TREE / "docs/operator/backup.md"
HEADING = "# What a fault leaves"
FAULTS = ("job killed", "carrier killed", "other node dies", "connection dropped", "target full")
BACKUP, MOVES, MOVE, CHAINS = (
    f"tests/system/test_{name}.py" for name in ("backup", "faults_of_moves", "move_instance", "backup_chains")
)
IN_THE_MIDDLE = f"{BACKUP}::test_what_is_interrupted_in_the_middle_leaves_all_as_before"
BETWEEN_CLUSTERS = f"{MOVE}::test_an_interruption_in_the_middle_leaves_the_source_as_before"
DEAD, DROPPED = (
    f"{MOVES}::test_a_node_that_dies_leaves_all_as_before",
    f"{MOVES}::test_a_dropped_connection_leaves_all_as_before",
)
CALLS = "tests/unit/calls/test_node_client.py::test_the_same_call_is_sent_again_and_its_answer_taken"
FULL_STORE = f"{MOVES}::test_backups_that_meet_a_full_file_system_leave_all_as_before"
SHOWN_BY = {
    "export": (
        IN_THE_MIDDLE,
        IN_THE_MIDDLE,
        DEAD,
        DROPPED,
        f"{MOVES}::test_an_export_into_a_full_file_system_leaves_all_as_before",
    ),
    "import": (IN_THE_MIDDLE, IN_THE_MIDDLE, DEAD, DROPPED, f"{MOVES}::test_an_import_onto_a_full_node_makes_nothing"),
    "move-instance": (
        BETWEEN_CLUSTERS,
        BETWEEN_CLUSTERS,
        f"{MOVE}::test_a_destination_that_dies_leaves_the_source_as_before",
        f"{MOVE}::test_a_dropped_connection_leaves_the_source_as_before",
        f"{MOVE}::test_a_full_destination_leaves_the_source_as_before",
    ),
    "incremental backup": (
        "simulator::backup",
        "simulator::backup",
        "simulator::backup",
        CALLS,
        f"{CHAINS}::test_a_full_place_leaves_the_older_backups_whole",
    ),
    "restore": ("simulator::restore", "simulator::restore", "simulator::restore", CALLS, FULL_STORE),
    "prove": ("simulator::prove", "simulator::prove", "simulator::prove", CALLS, FULL_STORE),
}


def table() -> tuple[tuple[str, ...], dict[str, tuple[str, ...]], set[str]]:
    """Faults, cells by step, and letters of the legend."""
    section = PAGE.read_text().partition(f"\n{HEADING}\n")[2].partition("\n# ")[0]
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in section.splitlines()
        if line.startswith("|") and not line.startswith("|--")
    ]
    cells = {row[0]: row[1:] for row in rows[1:] if len(row) == len(FAULTS) + 1}
    return rows[0][1:], cells, {row[0] for row in rows[1:] if len(row) == 2 and len(row[0]) == 1}


def test_the_page_has_each_step_and_each_fault() -> None:
    faults, cells, letters = table()
    assert faults == FAULTS and set(cells) == set(SHOWN_BY)
    assert {letter for row in cells.values() for letter in row} == letters


def test_each_cell_is_shown_by_a_test_or_the_simulator() -> None:
    cases = {case.name for case in CASES}
    _, cells, _ = table()
    assert {"job", "ganeti-noded", "node"} <= set(VICTIMS)
    for step, shown in SHOWN_BY.items():
        assert len(shown) == len(FAULTS), step
        for where, _, name in (each.partition("::") for each in shown):
            if not where:
                assert cells[step][shown.index("")] == "–", f"{step}: no test shows what the page says"
                continue
            if where == "simulator":
                assert name in cases, f"{step}: the simulator plays no {name}"
                continue
            tree = ast.parse((TREE / where).read_text())
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{step}: {where} has no {name}"
