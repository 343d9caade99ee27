# SPDX-License-Identifier: BSD-2-Clause
"""What watches the testbeds of all system tests finds a secret wherever one is planted, and says no word of it."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system import secret_watch
from tests.system.programs import secret_sampler

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import machine
from ganeti.tools.testbed.layout import Layout

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
HMAC, HUSH, OPEN = "f00dcafe" * 5, "hush-hush-hush", "for-logs-too-secret"
DATA = "/var/lib/ganeti"
SEEN_S = 2 * secret_sampler.SELDOM_S
"""A process that lives this long is seen even where the kernel announces none in time."""


def run(bed: Layout, *words: str) -> str:
    done = machine.run(bed, "node1", *words, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Layout]:
    """A node with an HMAC key, a queue and two secrets of a test."""
    made = testbed.up(tmp_path.resolve() / "bed", 1, "fake", watcher_interval_s=86400)
    (made.directory / "script").write_text(
        f"mkdir -p {DATA}/queue /etc/ganeti; umask 077; echo {HMAC} >{DATA}/hmac.key"
    )
    with (made.directory / "script").open() as script:
        assert machine.run(made, "node1", "sh", text=script.read()).returncode == 0
    run(made, "true", f"--os-parameters-secret=word={HUSH},no=x", "--os-parameters-private", f"key={OPEN}")
    yield made
    if made.directory.exists():
        testbed.down(made)


def shown(bed: Layout) -> list[str]:
    """What ends the run of the tests of this testbed."""
    with pytest.raises(AssertionError, match="secrets are shown") as raised:
        testbed.down(bed)
    assert not bed.directory.exists(), "the testbed is left"
    text = str(raised.value)
    assert HMAC not in text and HUSH not in text and OPEN not in text
    return text.splitlines()[1:]


def test_nothing_is_found_where_nothing_is_shown(bed: Layout) -> None:
    run(
        bed,
        "sh",
        "-c",
        f"umask 077; echo {OPEN} >{DATA}/queue/job-1; mkdir -m 700 /root/own; echo {HMAC} >/root/own/copy",
    )
    run(bed, "sh", "-c", f"env -u x OSP_WORD={HUSH} sleep 0.01")  # typed
    testbed.down(bed)


def test_each_place_is_found_and_named(bed: Layout) -> None:
    files = {
        "/etc/ganeti/open": HMAC,
        "/run/open": HUSH,
        f"{DATA}/queue/job-7": HUSH,
        "/var/log/ganeti/node-daemon.log": f"called with {OPEN}, thus",
        "/var/log/ganeti/rapi-daemon.log": "gnt_" + "x" * 40,
    }
    for path, text in files.items():
        assert machine.run(bed, "node1", "tee", path, text=text + "\n").returncode == 0
        run(bed, "chmod", "644" if "open" in path else "600", path)
    keeper = f"sh -c 'sleep {SEEN_S}; :' keeper {HMAC}"
    inside = f"{keeper} & WORD={HUSH} sleep {SEEN_S} & OSP_WORD={HUSH} sleep {SEEN_S} & wait"
    assert machine.run(bed, "node1", "sh", text=inside).returncode == 0
    found = shown(bed)
    for path in files:
        assert [line for line in found if re.search(rf"{path} shows a (secret|private|token)", line)], (path, found)
    assert "node1: the command line of sh shows a secret word of node1" in found
    assert "node1: the environment of sleep shows a secret parameter as WORD" in found
    assert len(found) == len(files) + 2, found


def test_what_a_file_holds_is_known_by_its_kind() -> None:
    def kinds(what: str, text: str) -> list[tuple[str, str]]:
        return list(secret_sampler.found_in(what, text))

    line = "M" * 64
    key = f"-----BEGIN PRIVATE KEY-----\n{line}\nc2hvcnQ=\n-----END PRIVATE KEY-----\n"
    certificate = f"-----BEGIN CERTIFICATE-----\n{'C' * 64}\n-----END CERTIFICATE-----\n"
    assert kinds("key", key + certificate) == [("private key", line)]
    users = "# all\njack open-sesame write\njill {HA1}0123456789abcdef\n"
    ssh = base64.b64encode(secret_sampler.OPENSSH + strings(b"none", b"none", b"") + b"\0\0\0\1" + strings(b"P" * 98))
    blocks = [ssh.decode(), base64.b64encode(b"S" * 48).decode()]
    openssh = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "\n".join(blocks) + "\n-----END"
    assert [word for _, word in kinds("key", openssh)] == blocks[1:]
    assert [word for _, word in kinds("users", users)] == ["open-sesame", "0123456789abcdef"]
    replicated = '{"dev_type": "drbd", "logical_id": ["a", "b", 11000, 0, 0, "feed"], "children": []}'
    assert kinds("config", f'{{"disks": {{"x": {replicated}}}}}') == [("secret of DRBD", "feed")]
    assert kinds("config", '{"disks": {"x": {"dev_type": "file", "logical_id": ["loop", "/x"]}}}') == []


def strings(*texts: bytes) -> bytes:
    """As ssh writes them."""
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def test_values_that_a_test_types_are_found_in_both_spellings() -> None:
    words = ["gnt-instance", "add", "--os-parameters-secret=a=b", "--os-parameters-private", "c=d", "web1"]
    assert list(secret_watch.options(words)) == [
        ("--os-parameters-secret", "a=b"),
        ("--os-parameters-private", "c=d"),
    ]
