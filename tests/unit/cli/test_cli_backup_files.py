# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup files: what is damaged in a directory is named, the rest is listed, and the status says so."""

FILE = {"mode": 0o100644, "uid": 0, "gid": 0, "size": 4, "problem": ""}
DAMAGED = {"mode": 0, "uid": 0, "gid": 0, "size": 0, "problem": "inode 77 is damaged: it does not begin as one"}


def listed(*entries):
    directory = {**FILE, "name": "etc", "mode": 0o40755}
    return {"backup": "1", "path": "/etc", "file": directory, "entries": list(entries), "cut": False}


def test_a_directory_with_a_damaged_inode_is_listed_in_part(gnt, master):
    master.job(result=listed({**FILE, "name": "fstab"}, {**DAMAGED, "name": "host\x1bs"}))
    ran = gnt("gnt-backup files web1 /etc")
    assert ran.status == 1
    assert "-rw-r--r--    0     0    4 fstab" in ran.out
    assert "??????????    ?     ?    ? host\\x1bs" in ran.out
    assert ran.err == "host\\x1bs cannot be read: inode 77 is damaged: it does not begin as one\n"


def test_a_whole_directory_is_a_success(gnt, master):
    master.job(result=listed({**FILE, "name": "fstab"}))
    ran = gnt("gnt-backup files web1 /etc")
    assert (ran.status, ran.err) == (0, "")
