# SPDX-License-Identifier: BSD-2-Clause
"""Who may continue the change stream from where."""

import msgspec

from ganeti.master.config.records import Commit, Put
from ganeti.master.config.stream import ChangeStream, event_of, snapshot_of
from ganeti.model.objects import Disk


def commit(serial: int, **more: object) -> Commit:
    disk = Disk(uuid=f"d{serial}", dev_type="plain")
    put = Put("disks", disk.uuid, disk, msgspec.json.encode(disk.to_plain()))
    return Commit((1, serial), 0.0, (put,), (("nodes", "gone"),), **more)  # type: ignore[arg-type]


def serials(events: list[bytes] | None) -> list[int] | None:
    return None if events is None else [msgspec.json.decode(event)["position"][1] for event in events]


def test_an_event_carries_objects_as_in_the_file():
    event = msgspec.json.decode(event_of(commit(5)))
    assert event["event"] == "commit"
    assert event["position"] == [1, 5]
    assert event["put"][0][:2] == ["disks", "d5"]
    assert event["put"][0][2]["dev_type"] == "plain"
    assert event["remove"] == [["nodes", "gone"]]


def test_who_is_behind_gets_what_was_missed():
    stream = ChangeStream((1, 10))
    for serial in (11, 12, 13):
        stream.add(commit(serial))
    assert serials(stream.since((1, 10))) == [11, 12, 13]
    assert serials(stream.since((1, 12))) == [13]
    assert stream.since((1, 13)) == []


def test_who_is_too_far_behind_or_from_another_history_needs_a_snapshot():
    stream = ChangeStream((1, 10), commits_kept=2)
    for serial in (11, 12, 13):
        stream.add(commit(serial))
    assert stream.since((1, 10)) is None
    assert serials(stream.since((1, 11))) == [12, 13]
    assert stream.since((1, 14)) is None
    assert stream.since((0, 0)) is None


def test_the_stream_is_bounded_by_size_too():
    stream = ChangeStream((1, 0), bytes_kept=500)
    for serial in range(1, 100):
        stream.add(commit(serial))
    assert stream.since((1, 0)) is None
    assert serials(stream.since((1, 98))) == [99]


def test_an_import_ends_the_stream():
    stream = ChangeStream((1, 0))
    stream.add(commit(1))
    assert stream.add(commit(2, whole=True)) is None
    assert stream.since((1, 1)) is None
    assert stream.since((1, 2)) == []


def test_a_stream_from_disk_goes_on():
    stream = ChangeStream((1, 7))
    stream.restore((1, 5), [((1, serial), event_of(commit(serial))) for serial in (6, 7)])
    stream.add(commit(8))
    assert serials(stream.since((1, 5))) == [6, 7, 8]


def test_a_snapshot_holds_the_file():
    event = msgspec.json.decode(snapshot_of((1, 3), b'{"version":3010000}'))
    assert event == {"event": "snapshot", "position": [1, 3], "config": {"version": 3010000}}


def test_a_record_that_only_a_former_master_had_is_no_place_to_continue_from():
    stream = ChangeStream((1, 10))
    stream.restore((1, 10), [((1, 11), event_of(commit(11))), ((2, 1), event_of(commit(12)))])
    assert stream.since((1, 12)) is None
    assert serials(stream.since((1, 11))) == [12]
