# SPDX-License-Identifier: BSD-2-Clause
"""`query-config` and `confd-client` print what a ConfD answers, and say why there is no answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.confd import KEY_FILE, FakeConfd

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.tools import confd_questions
from ganeti.wire.confd import PORT, Kind


@pytest.fixture
def confd() -> Iterator[FakeConfd]:
    made = FakeConfd()
    made.answers |= {
        (Kind.CONFIG, "/cluster/cluster_name"): "cluster",
        (Kind.CONFIG, "/cluster/tags"): ["a"],
        (Kind.PING, None): 3010000,
        (Kind.MASTER, None): "node1.x",
        (Kind.NODE_ROLE, "node1.x"): 0,
        (Kind.NODE_ADDRESSES, None): ["10.0.0.1"],
        (Kind.CANDIDATE_ADDRESSES, None): ["10.0.0.1"],
        (Kind.INSTANCE_ADDRESSES, None): [],
        (Kind.COLLECTORS, None): {},
    }
    yield made
    made.close()


@pytest.fixture
def where(confd: FakeConfd, tmp_path: Path) -> list[str]:
    (tmp_path / "key").write_bytes(KEY_FILE)
    return ["--hmac", str(tmp_path / "key"), "-a", f"127.0.0.1:{confd.port}"]


def test_values_by_their_paths(where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert confd_questions.query_config([*where, "/cluster/cluster_name", "/cluster/tags"]) == 0
    assert capsys.readouterr().out == '"cluster"\n["a"]\n'


def test_everything_is_asked(where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert confd_questions.confd_client([*where, "-r", "2"]) == 0
    out = capsys.readouterr().out
    assert "ping: 3010000 (" in out and 'node_role "node1.x": 0 (' in out and len(out.splitlines()) == 8
    assert confd_questions.confd_client([*where, "-r", "0"]) == 1


def test_why_there_is_no_answer(
    where: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    assert confd_questions.query_config(["/cluster"]) == 1
    assert "name the file of the cluster's key with --hmac" in capsys.readouterr().err
    assert confd_questions.query_config([*where[:2], "/cluster"]) == 1
    assert "No master candidate is known" in capsys.readouterr().err
    assert confd_questions.query_config([*where[:2], "-a", "127.0.0.1:9", "/cluster"]) == 1
    assert capsys.readouterr().err.startswith("query-config: ")


@pytest.mark.parametrize("address", ["[::1]", "::1"])
def test_a_confd_has_an_address_of_ipv6(address: str) -> None:
    assert confd_questions._places(address, Paths()) == [("::1", PORT)]
    assert confd_questions._places("[::1]:7", Paths()) == [("::1", 7)]
    with pytest.raises(TransportError, match="'node1:x' is no address of a ConfD"):
        confd_questions._places("node1:x", Paths())
