# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup forget, history and key: what is asked before, and what is told."""


def test_a_question_is_asked_where_no_backup_would_stay(gnt, master):
    master.job()
    ran = gnt("gnt-backup forget --keep 0 web1")
    assert (ran.status, master.submitted()) == (1, [])
    assert "All backups of web1 will be removed. Continue? There is no terminal to ask on: give -f" in ran.err
    assert gnt("gnt-backup forget --keep 0 -f web1").status == 0
    assert gnt("gnt-backup forget --keep 1 web1").status == 0
    assert gnt("gnt-backup forget --backup 20261128T230000Z web1").status == 0
    assert [opcode.get("keep") for opcode in master.submitted()] == [0, 1, None]


def test_the_history_names_the_nodes_that_could_not_say(gnt, master):
    warning = "WARNING: Backups may be left out: Node node2: No file system is mounted at /mnt/backups"
    master.job(result=[], log=([1, [1, 0], "message", warning],))
    ran = gnt("gnt-backup history")
    assert (ran.status, ran.err) == (0, f"{warning}\n")
    assert ran.out.split() == ["Instance", "Backup", "Node", "Builds", "on", "Size", "Stored", "Made", "Proved"]


def test_who_makes_a_key_is_told_to_keep_a_copy(gnt, master):
    advice = "Keep a copy of key ab12 outside the cluster"
    master.job(result="ab12", log=([1, [1, 0], "message", advice],))
    ran = gnt("gnt-backup key new")
    assert ran.status == 0
    assert advice in ran.out and ran.out.endswith("New backups are encrypted with key ab12\n")


def test_a_key_that_is_only_checked_for_is_not_made(gnt, master):
    master.job()
    ran = gnt("gnt-backup key --dry-run new")
    assert (ran.status, "encrypted" in ran.out) == (0, False)
    assert [opcode.get("dry_run") for opcode in master.submitted()] == [True]
    ran = gnt("gnt-backup key --submit new")
    assert (ran.status, ran.out) == (0, "") and ran.err.startswith("JobID: ")
