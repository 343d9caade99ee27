# SPDX-License-Identifier: BSD-2-Clause
"""What a take-over refuses, keeps and puts back; the whole way is in tests/real/test_take_over.py."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes import sample_cluster

from ganeti.base.errors import ConfigurationError, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.machine import Machine
from ganeti.master.config import versions
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CLUSTER_KEY
from ganeti.node import certificates
from ganeti.node.catalogue import build_catalogue
from ganeti.tools import cfgupgrade
from ganeti.tools.take_over import command, findings
from ganeti.tools.take_over.cluster_part import ClusterPart
from ganeti.tools.take_over.kept_files import KeptFiles
from ganeti.tools.take_over.messages import GiveBack, Survey
from ganeti.tools.take_over.node_part import NodePart
from ganeti.tools.take_over.placement_preview import placement_preview
from ganeti.tools.take_over.shadow import shadow
from ganeti.tools.take_over.unfinished_jobs import unfinished_jobs


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(str(tmp_path))
    Path(made.data_dir).mkdir(parents=True)
    return made


def names(paths: Paths) -> set[str]:
    return {path.name for path in Path(paths.data_dir).iterdir()}


def test_what_was_there_comes_back(paths: Paths) -> None:
    data = Path(paths.data_dir)
    before = {
        "config.data": "old",
        "client.pem": "old",
        "ssconf_master_node": "old",
        "locks.data": "[]",
        "hmac.key": "k",
    }
    for name, text in before.items():
        (data / name).write_text(text)
    kept = KeptFiles(paths)
    kept.save()
    kept.put({"client.pem": "new", "ca.pem": "new", "ca.key": "new", "ssconf_master_node": "new"})
    kept.save()  # once more: what is kept stays what was there before
    assert "locks.data" not in names(paths) and (data / "client.pem").read_text() == "new"
    (data / "config.sqlite").write_text("ours")
    (data / "config.sqlite-wal").write_text("ours")
    kept.restore({"config.data": "converted"})
    assert names(paths) == set(before)
    assert {name: (data / name).read_text() for name in before} == before | {"config.data": "converted"}


def test_what_an_administrator_has_beside_it_stays(paths: Paths) -> None:
    """The configuration of before the way back has the keys of backups, without which these cannot be read."""
    data = Path(paths.data_dir)
    (data / "config.data").write_text("old")
    kept = KeptFiles(paths)
    kept.save()
    kept.put({"ca.pem": "new"})
    beside = {"config.data.given-back", "config.data.2026-11-29", "server.pem.old"}
    for name in beside:
        (data / name).write_text(name)
    kept.restore({"config.data": "converted"})
    assert names(paths) == {"config.data", *beside}


class Interrupted(Exception):
    pass


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let the *step*-th change of a file fail; gives the list of changes, which grows as they are made."""
    made: list[str] = []

    def counted(name: str, act: Any) -> Any:
        def call(*arguments: Any, **words: Any) -> Any:
            made.append(f"{name} {arguments[-1]}")
            if len(made) == step:
                raise Interrupted
            return act(*arguments, **words)

        return call

    for module, name in ((os, "rename"), (os, "unlink"), (os, "rmdir"), (shutil, "copy2"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return made


@pytest.mark.parametrize("step", range(1, 16))
def test_an_interrupted_way_back_loses_nothing(paths: Paths, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The repetition reads `config.data`: at every moment it has all that happened since the take-over."""
    data = Path(paths.data_dir)
    before = {"config.data": "of before", "server.pem": "old", "client.pem": "old", "ssconf_x": "old", "ssconf_y": "y"}
    for name, text in before.items():
        (data / name).write_text(text)
    (data / "server.pem").chmod(0o600)
    kept = KeptFiles(paths)
    kept.save()
    kept.put({name: "new" for name in ("server.pem", "client.pem", "ca.pem", "ca.key", "ssconf_x", "ssconf_ours")})
    (data / "config.data").write_text("of today")
    (data / "config.sqlite").write_text("ours")
    files = {"config.data": "of today, converted", "ssconf_x": "today"}
    with monkeypatch.context() as patched:
        made = interrupt_at(patched, step)
        with suppress(Interrupted):
            kept.restore(files)
    assert (data / "config.data").read_text().startswith("of today"), made
    if (data / "ca.pem").exists():
        kept.restore(files)
    found = {path.name: path.read_text() for path in data.iterdir() if path.is_file()}
    assert found == before | files, made
    assert (data / "server.pem").stat().st_mode & 0o777 == 0o600


def test_what_an_interrupted_way_back_kept_is_not_for_the_next_take_over(paths: Paths) -> None:
    data = Path(paths.data_dir)
    (data / "config.data").write_text("first")
    kept = KeptFiles(paths)
    kept.save()
    (data / "config.data").write_text("given back, then changed by the earlier Ganeti")
    kept.save()
    assert (Path(kept.directory) / "config.data").read_text() == "given back, then changed by the earlier Ganeti"


def test_a_node_that_is_back_is_left_alone(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of what was kept was interrupted: what is missing there is not removed from the node."""
    data = Path(paths.data_dir)
    for name in ("client.pem", "ssconf_cluster_name"):
        (data / name).write_text("old")
    KeptFiles(paths).save()
    (data / "taken-over/client.pem").unlink()
    monkeypatch.setattr(Machine, "daemon_util", lambda self, *words: None)
    assert NodePart(Machine(str(tmp_path), "node1")).give_back(GiveBack(guests=[], files={})).guests == []
    assert (data / "client.pem").read_text() == "old"


def test_an_interrupted_way_back_may_find_its_configuration_downgraded(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    plain = sample_cluster.configuration().to_plain()
    Path(paths.config_file).write_text(json.dumps(plain))
    part = ClusterPart(Machine(str(tmp_path), "node1"))
    assert part._plain_back() == plain
    kept = part._keep_present()
    assert kept and json.loads(Path(kept).read_text()) == plain and Path(kept).stat().st_mode & 0o777 == 0o600
    versions.downgrade(plain, build_catalogue())
    Path(paths.config_file).write_text(json.dumps(plain))
    assert part._keep_present() is None, "what an interrupted one has kept stays"
    found = Configuration.from_plain(part._plain_back()).to_plain()
    versions.downgrade(found, build_catalogue())
    assert found == plain and versions.version_of(found) == (3, 0)


def test_a_key_is_never_readable_for_others(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Path(paths.data_dir) / "server.pem"
    key.write_text("old")
    key.chmod(0o600)
    kept = KeptFiles(paths)
    kept.save()
    kept.put({"server.pem": "new"})
    modes: list[int] = []

    def seen(act: Any) -> Any:
        def call(*arguments: Any, **words: Any) -> Any:
            modes.extend(path.stat().st_mode & 0o077 for path in key.parent.glob("*server.pem*"))
            return act(*arguments, **words)

        return call

    for name in ("chmod", "fchmod", "chown", "fchown", "utime", "rename"):
        monkeypatch.setattr(os, name, seen(getattr(os, name)))
    mask = os.umask(0)
    try:
        kept.restore({})
    finally:
        os.umask(mask)
    assert key.read_text() == "old" and modes and set(modes) <= {0, 0o040}


def test_one_that_was_interrupted_is_begun_anew(paths: Paths) -> None:
    (Path(paths.data_dir) / "client.pem").write_text("old")
    kept = KeptFiles(paths)
    Path(kept.directory).mkdir()
    (Path(kept.directory) / "client.pem").write_text("half")
    assert not kept.are_there
    kept.save()
    assert kept.are_there and (Path(kept.directory) / "client.pem").read_text() == "old"


def test_the_old_digest_is_as_3_0_writes_it(paths: Paths) -> None:
    kept = KeptFiles(paths)
    assert kept.old_digest() == ""
    (Path(paths.data_dir) / "client.pem").write_text(certificates.create_self_signed("node1"))
    kept.save()
    parts = kept.old_digest().split(":")
    assert len(parts) == 20 and all(len(part) == 2 and part == part.upper() for part in parts)
    found = kept.old_digest()
    kept.put({"client.pem": certificates.create_self_signed("node1")})
    assert kept.old_digest() == found
    kept.restore({})
    assert kept.old_digest(is_back=True) == found, "an interrupted way back is completed with it"


def job(*statuses: str) -> str:
    return json.dumps({"id": 1, "ops": [{"status": status, "input": {}} for status in statuses]})


def test_jobs_that_have_not_ended_are_found(tmp_path: Path) -> None:
    for number, text in enumerate((job("success"), job("success", "queued"), job("error"), job("running"))):
        (tmp_path / f"job-{number}").write_text(text)
    (tmp_path / "serial").write_text("3\n")
    assert unfinished_jobs(str(tmp_path)) == [1, 3]
    assert unfinished_jobs(str(tmp_path / "nowhere")) == []
    (tmp_path / "job-9").write_text("{")
    with pytest.raises(PrerequisiteError, match="move it away first"):
        unfinished_jobs(str(tmp_path))


def test_what_there_is_no_driver_for_speaks_against_it() -> None:
    config = sample_cluster.configuration()
    cluster = msgspec.structs.replace(config.cluster, enabled_hypervisors=["xen-pvm"])
    config.put("cluster", CLUSTER_KEY, cluster)
    found = findings.obstacles(config, sample_cluster.catalogue())
    assert found == [
        "the hypervisor xen-pvm is enabled, and there is no driver of it: disable it with "
        "gnt-cluster modify --enabled-hypervisors"
    ]


def test_parameters_that_no_driver_takes_speak_against_it() -> None:
    config = sample_cluster.configuration()
    instance = sample_cluster.add_instance(config, "web")
    (parameter, *_) = sample_cluster.catalogue().hypervisor(instance.hypervisor).parameters
    hvparams = {"nosuch": 1, parameter.name: ["no value"]}
    config.put("instances", instance.uuid, msgspec.structs.replace(instance, hvparams=hvparams))
    found = findings.obstacles(config, sample_cluster.catalogue())
    assert found[0].startswith(f"instance web: Parameter '{parameter.name}' cannot be")
    assert found[1:] == ["instance web: the hypervisor parameter nosuch is not known here"]


def test_what_3_0_does_not_know_speaks_against_the_way_back() -> None:
    config = sample_cluster.configuration()
    cluster = msgspec.structs.replace(config.cluster, enabled_disk_templates=["file", "mirror"])
    config.put("cluster", CLUSTER_KEY, cluster)
    instance = sample_cluster.add_instance(config, "web")
    config.put("instances", instance.uuid, msgspec.structs.replace(instance, reverting="before"))
    found = " ".join(findings.not_for_3_0(config))
    assert "the disk template mirror is enabled" in found
    assert f"instance {instance.name} is being taken back" in found


def copy_of_a_cluster(tmp_path: Path) -> Path:
    plain = sample_cluster.configuration().to_plain()
    plain["version"] = 3000000
    (tmp_path / "config.data").write_text(json.dumps(plain))
    return tmp_path


def test_a_shadow_says_and_changes_nothing(tmp_path: Path) -> None:
    place = copy_of_a_cluster(tmp_path)
    before = (place / "config.data").read_bytes()
    lines, _ = shadow(str(place))
    text = "\n".join(lines)
    assert "a cluster of Ganeti 3.0" in text and "version 3.0 is 3.1 now" in text and "node1" in text
    assert (place / "config.data").read_bytes() == before
    assert [path.name for path in place.iterdir()] == ["config.data"]
    (place / "queue").mkdir()
    (place / "queue/job-7").write_text(job("running"))
    lines, refused = shadow(str(place))
    assert refused and any("jobs 7 had not ended" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "There is no config.data in"),
        ("{", "is damaged"),
        ("[]", "holds no object"),
        ("{}", "names no version"),
        ('{"version": 1020000}', "is of version 1.2"),
        ('{"version": 3000000}', "no 'cluster' entry"),
    ],
)
def test_what_is_no_copy_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "config.data").write_text(text)
    with pytest.raises((ConfigurationError, PrerequisiteError), match=said):
        shadow(str(tmp_path))


def test_cfgupgrade_keeps_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = copy_of_a_cluster(tmp_path)
    before = (place / "config.data").read_bytes()
    words = ["--path", str(place), "--no-verify"]
    assert cfgupgrade.main([*words, "--dry-run"]) == 0
    assert (place / "config.data").read_bytes() == before
    assert cfgupgrade.main(words) == 0
    assert json.loads((place / "config.data").read_bytes())["version"] == 3010000
    (kept,) = place.glob("config.data.backup-*")
    assert kept.read_bytes() == before and kept.stat().st_mode & 0o777 == 0o600
    assert cfgupgrade.main(words) == 0
    assert "as it should be already" in capsys.readouterr().err
    assert cfgupgrade.main([*words, "--downgrade"]) == 0
    assert json.loads((place / "config.data").read_bytes())["version"] == 3000000
    assert cfgupgrade.main([*words, "--downgrade"]) == 1


def test_without_a_cluster_there_is_nothing_to_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert command.main(["check"]) == 1
    assert command.main(["back"]) == 1
    assert command.main(["shadow", str(tmp_path / "nowhere")]) == 1
    assert list(tmp_path.iterdir()) == []


TEXT = """\
default|g1|preferred|||

node1|8192|1024|4000|100000|50000|4|N|g1|1
node2|8192|1024|6000|100000|90000|4|N|g1|1
node3|8192|1024|7000|100000|95000|4|M|g1|1

web1|512|1024|1|running|Y|node1|node2|drbd||1
web2|512|1024|1|running|Y|node1||plain||1

"""


def test_placement_answers_for_a_cluster_that_is_not_here(tmp_path: Path) -> None:
    """The same as hail says: the last node is the emptiest."""
    (tmp_path / "cluster.data").write_text(TEXT)
    lines = placement_preview(str(tmp_path / "cluster.data"))
    assert lines[0] == f"What placement would say, by {tmp_path}/cluster.data:"
    told = "\n".join(lines)
    assert "on drbd, 128 MiB of memory, 1 processors, 1 disks of 1024 MiB: goes to node3 and node2" in told
    assert "on plain, 128 MiB of memory, 1 processors, 1 disks of 1024 MiB: goes to node3" in told
    assert "node1 emptied: web1 to node2" in told and "web2 stays (" in told
    for text in ("", "a|b"):
        (tmp_path / "cluster.data").write_text(text)
        with pytest.raises(GanetiError):
            placement_preview(str(tmp_path / "cluster.data"))
    with pytest.raises(GanetiError, match="cannot be read: No such file"):
        placement_preview(str(tmp_path / "nowhere"))


def test_exports_that_the_other_does_not_look_for_are_named(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    part = NodePart(Machine(str(root), "node1"))
    theirs, ours = root / "var/lib/ganeti/export/web", root / "srv/ganeti/export"
    ours.mkdir(parents=True)
    assert part.survey(Survey(cluster_name="cluster")).remarks == []
    theirs.mkdir(parents=True)
    (remark,) = part.survey(Survey(cluster_name="cluster")).remarks
    assert remark.startswith(f"there are exports in {theirs.parent}, and this program looks for them in {ours}")
    assert part.survey(Survey(cluster_name="cluster", back=True)).remarks == []
    (ours / "web").mkdir()
    (remark,) = part.survey(Survey(cluster_name="cluster", back=True)).remarks
    assert remark.startswith(f"there are exports in {ours}, and Debian's Ganeti 3.0 looks for them in {theirs.parent}")


def test_a_file_that_is_no_text_of_a_cluster_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("nothing\n")
    with pytest.raises(PrerequisiteError, match=f"^{bad} is no text file of a cluster"):
        placement_preview(str(bad))
