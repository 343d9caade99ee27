# SPDX-License-Identifier: BSD-2-Clause
"""How a start ends: import, refusal with its exit status, mastership."""

import errno
import json
import os
import sqlite3
from asyncio import run
from pathlib import Path

import msgspec
import pytest
from tests.fakes import sample_cluster
from tests.fakes.wconfd import GOLDEN, TagCluster, fast_directory, prepare, running_wconfd

from ganeti.base.errors import ConfigurationError, ConfigVerifyError
from ganeti.base.paths import Paths
from ganeti.master.config.fingerprint import Fingerprint
from ganeti.master.config.records import fragment
from ganeti.master.config.store import Loaded
from ganeti.model.configuration import Configuration
from ganeti.model.membership import Kept, Membership
from ganeti.model.objects import KINDS
from ganeti.stores.damage import damage_of_configuration
from ganeti.system.daemonize import DaemonRefused
from ganeti.system.environment import Environment
from ganeti.wconfd import start as wconfd_start
from ganeti.wconfd.start import Opened, check_master, open_configuration


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


def sqlite_error(sentence: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(sentence)
    error.sqlite_errorcode = code
    return error


def golden_config() -> Configuration:
    return Configuration.from_plain(json.loads(GOLDEN.read_bytes()))


def test_no_cluster_is_exit_5_and_makes_nothing(root):
    with pytest.raises(DaemonRefused, match="in no cluster") as caught:
        open_configuration(Paths(str(root)))
    assert caught.value.status == 5
    assert os.listdir(root) == []


def test_a_file_of_3_1_is_imported_once_it_is_accepted(root):
    paths = prepare(root)
    refused = open_configuration(paths)
    refused.store.close()
    opened = open_configuration(paths)
    assert opened.imported is not None, "a start that was not accepted has changed nothing"
    opened.accept()
    opened.store.close()
    again = open_configuration(paths)
    assert again.imported is None
    assert again.loaded.config.position == opened.loaded.config.position == (1, 42)
    again.store.close()


def test_a_restored_file_is_imported_and_our_own_is_not(root):
    async def commit_and_stop():
        async with running_wconfd(root) as daemon:
            position, _ = await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="new"), True)
            await daemon.client.wait_published(position)

    run(commit_and_stop())
    paths = prepare(root)
    ours = open_configuration(paths)
    assert ours.imported is None
    ours.store.close()
    Path(paths.config_file).write_bytes(GOLDEN.read_bytes())
    restored = open_configuration(paths)
    assert restored.imported is not None
    assert restored.loaded.config.position == (2, 44), "later than everything committed before"
    assert restored.loaded.config.cluster.tags == ["prod"]
    assert [answer.job for answer in restored.loaded.steps] == [1]
    restored.accept()
    restored.store.close()


def test_commits_after_an_import_that_was_not_published_are_kept(root):
    paths = prepare(root)
    opened = open_configuration(paths)
    opened.accept()
    opened.store.close()
    again = open_configuration(paths)
    assert again.imported is None, "the foreign file lies there still; importing it twice would lose commits"
    again.store.close()


def test_a_missing_file_is_published_again(root):
    paths = prepare(root)
    opened = open_configuration(paths)
    opened.accept()
    opened.store.close()
    os.unlink(paths.config_file)

    async def start_and_stop():
        async with running_wconfd(root, fresh=False) as daemon:
            await daemon.client.call("flushConfig")

    run(start_and_stop())
    assert json.loads(Path(paths.config_file).read_bytes())["serial_no"] == 42


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("{", ConfigurationError, "not JSON"),
        (
            GOLDEN.read_text().replace('"enabled_disk_templates": [', '"enabled_disk_templates": [], "x": ['),
            ConfigVerifyError,
            "The cluster has no enabled disk template",
        ),
    ],
)
def test_a_file_that_cannot_be_taken_over_refuses_the_start(root, text, error, complaint):
    paths = prepare(root)
    Path(paths.config_file).write_text(text)
    with pytest.raises(error, match=complaint):
        open_configuration(paths)
    assert Path(paths.config_file).read_text() == text


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.EROFS, "Read-only file system"),
        OSError(errno.ENOSPC, "No space left on device"),
        sqlite_error("database or disk is full", sqlite3.SQLITE_FULL),
        sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_SHMSIZE),
        sqlite_error("attempt to write a readonly database", sqlite3.SQLITE_READONLY),
    ],
)
def test_a_file_system_that_refuses_is_no_damage(root, fault):
    """Nobody is to move a whole database away because there was no room to open it."""
    paths = prepare(root)
    open_configuration(paths).store.close()
    with pytest.raises(ConfigurationError) as caught, damage_of_configuration(paths):
        raise ConfigurationError(f"The configuration database cannot be opened: {fault}") from fault
    assert "nothing is to be removed" in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_a_database_that_cannot_be_read_whole_is_damaged(root):
    paths = prepare(root)
    Path(paths.config_database).write_bytes(b"no database at all" * 1000)
    with pytest.raises(ConfigurationError, match=r"is damaged .* move it away"), damage_of_configuration(paths):
        open_configuration(paths)


@pytest.fixture
def after_commits(root, monkeypatch):
    """A cluster with two published commits; gives its paths and what `config.data` was after the first."""
    paths, states = committed_and_killed(root, monkeypatch, ("one", "two"))
    return paths, states[0]


def committed_and_killed(root, monkeypatch, tags):
    """Give the paths, and `config.data` as it was after each tag of the cluster."""
    states = []

    async def commit_and_die():
        async with running_wconfd(root) as daemon:
            monkeypatch.setattr(daemon.service.publisher, "close", nothing)  # as when it is killed
            for step, tag in enumerate(tags, 1):
                position, _ = await daemon.client.commit(daemon.job(step), 1, TagCluster(tag=tag), True)
                await daemon.client.wait_published(position)
                states.append(Path(daemon.paths.config_file).read_bytes())

    async def nothing():
        return None

    run(commit_and_die())
    return prepare(root), states


def started_on(paths: Paths, data: bytes):
    """What a start makes of this `config.data`."""
    Path(paths.config_file).write_bytes(data)
    opened = open_configuration(paths)
    opened.accept()
    opened.store.close()
    return opened


def started_again_before_anything_was_published(paths: Paths) -> list[str]:
    """Start as a daemon does that is killed before it has written anything; gives the tags of the cluster."""
    opened = open_configuration(paths)
    opened.accept()
    opened.store.close()
    assert opened.imported is None
    return opened.loaded.config.cluster.tags


def lose_power(monkeypatch) -> None:
    monkeypatch.setattr(wconfd_start, "kernel_boot_id", lambda: "the next boot")


def test_a_state_before_the_last_is_a_restored_one(after_commits):
    paths, older = after_commits
    assert started_on(paths, older.replace(b"one", b"own")).imported is not None
    assert started_on(paths, older).loaded.config.cluster.tags == ["prod", "one"], "what the administrator put there"


def test_an_older_file_after_a_loss_of_power_is_not_imported(after_commits, monkeypatch):
    paths, older = after_commits
    lose_power(monkeypatch)
    assert started_on(paths, older).loaded.config.cluster.tags == ["prod", "one", "two"]
    started_again_before_anything_was_published(paths)


def test_a_file_older_than_the_last_known_mark_is_not_imported_after_a_loss_of_power(root, monkeypatch):
    """Nor by a second start, and the file is kept, as it may be a backup that somebody has just put there."""
    paths, states = committed_and_killed(root, monkeypatch, ("one", "two", "three"))
    lose_power(monkeypatch)
    assert started_on(paths, states[0]).loaded.config.cluster.tags == ["prod", "one", "two", "three"]
    assert Path(f"{paths.config_file}.found").read_bytes() == states[0]
    assert started_again_before_anything_was_published(paths) == ["prod", "one", "two", "three"]


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:500], lambda data: data.replace(b"one", b"own")]
)
def test_a_file_that_lost_power_has_damaged_is_kept_and_not_imported(after_commits, monkeypatch, caplog, damage):
    paths, older = after_commits
    lose_power(monkeypatch)
    damaged = damage(older)
    opened = started_on(paths, damaged)
    assert opened.imported is None
    assert opened.loaded.config.cluster.tags == ["prod", "one", "two"]
    assert Path(f"{paths.config_file}.found").read_bytes() == damaged
    assert "copy it back" in caplog.text
    assert started_again_before_anything_was_published(paths) == ["prod", "one", "two"]


def test_a_file_of_3_1_is_imported_even_after_a_loss_of_power(after_commits, monkeypatch):
    paths, _ = after_commits
    lose_power(monkeypatch)
    restored = GOLDEN.read_bytes().replace(b'"prod"', b'"restored"')
    assert started_on(paths, restored).loaded.config.cluster.tags == ["restored"]


def test_the_file_imported_first_is_not_imported_again_after_a_loss_of_power(after_commits, monkeypatch):
    """Nothing of ours may have reached the disk since: to import it again would undo what was acknowledged."""
    paths, _ = after_commits
    lose_power(monkeypatch)
    opened = started_on(paths, GOLDEN.read_bytes())
    assert opened.imported is None
    assert opened.outdated_file == paths.config_file
    assert opened.loaded.config.cluster.tags != ["prod"]


def test_the_file_of_another_master_is_imported_even_after_a_loss_of_power(after_commits, monkeypatch):
    """This node was master, lost power, and is master again: what the one between them sent is what holds."""
    paths, _ = after_commits

    async def rule():
        with fast_directory() as elsewhere:
            async with running_wconfd(elsewhere) as daemon:
                position, _ = await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="other-master"), True)
                await daemon.client.wait_published(position)
                return Path(daemon.paths.config_file).read_bytes()

    sent = run(rule())
    lose_power(monkeypatch)
    opened = started_on(paths, sent)
    assert opened.loaded.config.cluster.tags == ["prod", "other-master"]
    assert opened.loaded.config.position > (1, 44), "later than everything committed here"


def test_after_an_orderly_end_a_boot_changes_nothing(root, monkeypatch):
    states = []

    async def commit_and_stop():
        async with running_wconfd(root) as daemon:
            for step, tag in enumerate(("one", "two"), 1):
                position, _ = await daemon.client.commit(daemon.job(step), 1, TagCluster(tag=tag), True)
                await daemon.client.wait_published(position)
                states.append(Path(daemon.paths.config_file).read_bytes())

    run(commit_and_stop())
    lose_power(monkeypatch)
    paths = prepare(root)
    assert sorted(name for name in os.listdir(paths.data_dir) if "config.data" in name) == ["config.data"]
    assert started_on(paths, states[1]).imported is None
    assert started_on(paths, states[0]).imported is not None


def test_another_node_is_not_the_master():
    config = golden_config()
    check_master(Environment(Paths(), "node1.example.com"), config)
    check_master(Environment(Paths(), "node1"), config)
    with pytest.raises(
        DaemonRefused, match=r"this node, node2.example.com, is not the master: that is node1"
    ) as caught:
        check_master(Environment(Paths(), "node2.example.com"), config)
    assert caught.value.status == 11


def candidates(*, kept: Membership | None = None) -> Opened:
    """A copy at node2 of what node1 was the master of."""
    config = sample_cluster.configuration()
    config.position = (3, 17)
    fragments = {(kind, uuid): fragment(config.get(kind, uuid)) for kind in KINDS for uuid in config.uuids(kind)}
    loaded = Loaded(config, fragments, 1.0, kept=Kept(kept) if kept else None)
    return Opened(None, loaded, None, None)


def test_an_epoch_begins_with_this_node_as_master_and_the_same_members():
    opened = candidates(kept=Membership((3, 5), ("uuid-node1", "uuid-node2")))
    me = opened.loaded.config.node("uuid-node2")
    opened.begin_epoch(4, me, None)
    config = opened.loaded.config
    assert config.position == opened.begun.position == (4, 1)
    assert config.cluster.master_node == "uuid-node2"
    assert config.cluster.serial_no == 2
    assert opened.kept == Kept(Membership((4, 1), ("uuid-node1", "uuid-node2")))
    whole = Fingerprint(config.header, opened.loaded.fragments)
    assert opened.begun.digest == whole.now(1, opened.loaded.mtime_s)
    opened.check_member(forced=False)
    opened.begin_epoch(4, me, None)
    assert config.position == (4, 1), "repeated, it changes nothing"


def test_the_members_are_those_that_were_reported_and_in_a_forced_epoch_this_node_alone():
    opened = candidates(kept=Membership((3, 5), ("uuid-node1", "uuid-node2")))
    me = opened.loaded.config.node("uuid-node2")
    opened.begin_epoch(4, me, ["uuid-node2", "uuid-node3"])
    assert opened.kept.membership.members == ("uuid-node2", "uuid-node3")
    opened = candidates(kept=Membership((3, 5), ("uuid-node1", "uuid-node3")))
    opened.begin_epoch(1_012_345, opened.loaded.config.node("uuid-node2"), None)
    assert opened.kept.membership == Membership((1_012_345, 1), ("uuid-node2",))


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_epoch_that_is_over_is_not_begun(epoch):
    opened = candidates(kept=Membership((3, 5), ("uuid-node1", "uuid-node2")))
    with pytest.raises(DaemonRefused, match="is over") as refusal:
        opened.begin_epoch(epoch, opened.loaded.config.node("uuid-node2"), None)
    assert refusal.value.status == 11


def test_a_node_that_is_not_in_sync_is_no_master_unless_somebody_says_so():
    opened = candidates(kept=Membership((3, 5), ("uuid-node2", "uuid-node3")))
    with pytest.raises(DaemonRefused, match=r"node1, is not in sync.*: node2, node3; or start with --no-voting"):
        opened.check_member(forced=False)
    with pytest.raises(DaemonRefused, match="not in sync"):
        opened.begin_epoch(4, opened.loaded.config.node("uuid-node1"), None)
    opened.check_member(forced=True)
    assert opened.kept.membership == Membership((3, 6), ("uuid-node1",))


def test_the_membership_is_kept_and_an_import_begins_an_epoch_of_the_master_alone(root):
    paths = prepare(root)
    opened = open_configuration(paths)
    opened.accept()
    master = opened.loaded.config.cluster.master_node
    assert opened.store.load().kept == Kept(Membership((1, 1), (master,)))
    kept = Kept(Membership((1, 4), (master, "x")), 5, (master, "x", "y"))
    opened.store.set_membership(kept)
    assert opened.store.load().kept == kept
    opened.store.close()
    plain = json.loads(GOLDEN.read_bytes())
    plain["cluster"]["tags"] = ["foreign"]
    Path(paths.config_file).write_text(json.dumps(plain))
    opened = open_configuration(paths)
    opened.accept()
    assert opened.store.load().kept == Kept(Membership((2, 1), (master,)))
    opened.store.close()


def test_a_replica_that_became_master_has_the_membership_it_was_sent(root):
    paths = prepare(root)
    opened = open_configuration(paths)
    opened.accept()
    opened.store.set_membership(Kept(Membership((1, 4), ("a", "x")), 5, ("a", "x", "y")))
    sent = Membership((2, 1), ("b", "x"))
    with sqlite3.connect(paths.config_database) as replica:
        replica.execute("UPDATE meta SET value = ? WHERE key = 'membership'", (msgspec.json.encode(sent).decode(),))
    replica.close()
    assert opened.store.load().kept == Kept(sent), "what it reserved and counted as master is of another time"
    opened.store.close()
