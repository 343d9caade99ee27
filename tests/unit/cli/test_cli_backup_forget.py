# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup forget: nothing is asked while a backup stays."""


def test_a_question_is_asked_where_no_backup_would_stay(gnt, master):
    master.job()
    ran = gnt("gnt-backup forget --keep 0 web1")
    assert (ran.status, master.submitted()) == (1, [])
    assert "All backups of web1 will be removed. Continue? There is no terminal to ask on: give -f" in ran.err
    assert gnt("gnt-backup forget --keep 0 -f web1").status == 0
    assert gnt("gnt-backup forget --keep 1 web1").status == 0
    assert gnt("gnt-backup forget --backup 20261128T230000Z web1").status == 0
    assert [opcode.get("keep") for opcode in master.submitted()] == [0, 1, None]
