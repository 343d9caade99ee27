# SPDX-License-Identifier: BSD-2-Clause
"""What follows from the events at the hub: gaps, lost beats, the beat a disk holds."""

import pytest

from ganeti.base.errors import CommandError
from ganeti.tools.testbed import guest, watching
from ganeti.tools.testbed.layout import Layout
from ganeti.tools.testbed.observer import checksum
from ganeti.tools.testbed.watching import Watch


def watch_of(*lines):
    watch = Watch()
    for line in lines:
        watch.take(line)
    return watch


def test_the_longest_gap_counts_from_the_first_moment_to_the_last():
    watch = watch_of(*(f"ping {moment} 10.78.0.1" for moment in (0.9, 1.02, 1.04, 1.30, 1.32, 2.5)))
    assert watch.longest_gap_s("10.78.0.1", 1.0, 1.34) == pytest.approx(0.26)
    assert watch.longest_gap_s("10.78.0.1", 1.0, 2.0) == pytest.approx(0.68)
    assert watch.longest_gap_s("10.78.0.2", 1.0, 2.0) == 1.0


def test_missing_numbers_are_lost_beats():
    watch = watch_of("beat 1.0 inst1 4", "beat 1.5 inst1 5", "beat 2.0 inst1 8", "beat 2.5 inst1 9", "beat 2.6 inst2 1")
    assert watch.lost_beats("inst1", 0.0) == 2
    assert watch.lost_beats("inst1", 2.0) == 0
    assert watch.last_beat("inst1") == 9
    assert watch.last_beat("inst3") == 0


def test_the_first_beat_after_a_moment_is_waited_for():
    watch = watch_of("beat 1.0 inst1 4", "beat 1.5 inst1 5", "nonsense", "beat 2.0 inst1 torn")
    assert watch.wait_for_beat("inst1", 1.0, 0.0) == (1.5, 5)
    with pytest.raises(CommandError, match="inst1 sent no beat"):
        watch.wait_for_beat("inst1", 1.5, 0.01)


def test_the_beat_on_a_disk_is_found_by_the_name_in_its_configuration(tmp_path):
    bed = Layout(tmp_path, tmp_path, "kvm", 1)
    for name, beat in (("inst1", b"00000041 3.5 inst1"), ("inst10", b"00000007 1.0 inst10")):
        (bed.shared / name).mkdir(parents=True)
        config = f"{guest.MAGIC}\nhostname={name}\n".encode()
        (bed.shared / name / "0").write_bytes(beat.ljust(guest.CONFIG_SECTOR * guest.SECTOR_BYTES, b"\0") + config)
    assert watching.held_beat(bed, "inst1") == 41
    assert watching.held_beat(bed, "inst10") == 7
    with pytest.raises(CommandError, match=r"no disk .* belongs to inst2"):
        watching.held_beat(bed, "inst2")


def test_the_checksum_is_that_of_the_internet():
    assert checksum(bytes.fromhex("4500003044224000800600008c7c19acae241e2b")) == 0x442E
