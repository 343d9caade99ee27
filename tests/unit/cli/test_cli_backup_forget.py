# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup forget: nothing is asked while a backup stays. gnt-backup history: it says whose backups are missing."""


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
