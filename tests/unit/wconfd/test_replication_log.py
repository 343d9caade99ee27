# SPDX-License-Identifier: BSD-2-Clause
"""The newest records, one of which the disk has damaged since it was written."""

from ganeti.master.config.store import StoredCommit
from ganeti.wconfd.replication_log import ReplicationLog

EVENT = b'{"put":[],"remove":[]}'


def log(damaged: int | None = None) -> ReplicationLog:
    """Commits 1.1 to 1.5 after 1.0, as a start finds them."""
    events = [EVENT if number != damaged else EVENT[:9] + b"\x00" + EVENT[10:] for number in range(1, 6)]
    commits = [StoredCommit((1, number), 0.0, f"d{number}", event) for number, event in enumerate(events, 1)]
    return ReplicationLog((1, 0), commits, [], "d0")


def test_a_damaged_commit_is_sent_to_nobody_and_what_lacks_it_gets_everything() -> None:
    found = log(damaged=3)
    assert found.number_at((1, 1), "d1") == 2
    assert found.commits_after(2, found.last) is None
    assert found.number_at((1, 1), "d1") is None, "a copy as of 1.1 gets the configuration whole from now on"
    number = found.number_at((1, 3), "d3")
    assert number == 4
    sent = found.commits_after(number, found.last)
    assert sent is not None
    assert (sent.after, len(sent.encoded), sent.up_to) == ((1, 3), 2, found.last)


def test_without_damage_nothing_is_let_go_of() -> None:
    found = log()
    sent = found.commits_after(1, found.last)
    assert sent is not None and len(sent.encoded) == 5
    assert found.number_at((1, 0), "d0") == 1
