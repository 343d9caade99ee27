# SPDX-License-Identifier: BSD-2-Clause
"""Rows of locks: who holds and who waits, as 3.1 shows them."""

from ganeti.master.locks.owners import Owner
from ganeti.master.query.locks import LOCKS, lock_rows


def job(number):
    return Owner(number, f"/livelocks/{number}")


def values(row):
    return [LOCKS.fields[name].get(row) for name in ("name", "mode", "owner", "pending")]


def test_rows_are_in_the_order_of_the_locks():
    held = [("node/b", [(job(2), "exclusive")]), ("cluster/BGL", [(job(1), "shared"), (job(2), "shared")])]
    waiting = [(0, job(3), {"instance/x": "shared", "node/b": "exclusive"})]
    assert [values(row) for row in lock_rows(held, waiting)] == [
        ["cluster/BGL", "shared", ["1", "2"], []],
        ["instance/x", None, None, [("shared", ["3"])]],
        ["node/b", "exclusive", ["2"], [("exclusive", ["3"])]],
    ]


def test_who_waits_in_the_same_mode_stands_together_in_the_order_of_serving():
    modes = ["exclusive", "exclusive", "shared", "shared", "exclusive"]
    waiting = [(0, job(number), {"node/a": mode}) for number, mode in enumerate(modes, 5)]
    (row,) = lock_rows([], waiting)
    assert row.pending == [("exclusive", ["5", "6"]), ("shared", ["7", "8"]), ("exclusive", ["9"])]


def test_releases_in_a_request_are_no_waiting():
    (row,) = lock_rows([], [(0, job(1), {"node/a": "release", "node/b": "shared"})])
    assert row.name == "node/b"


def test_a_piece_of_work_that_is_no_job_has_its_name():
    (row,) = lock_rows([("node/a", [(Owner("watcher", "/w"), "exclusive")])], [])
    assert values(row)[2] == ["watcher"]
