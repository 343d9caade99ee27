# SPDX-License-Identifier: BSD-2-Clause
"""Which daemons the watcher starts on a node beside those that run everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.bootstrap.demanded_daemons import demanded


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ((), []),
        (("mirror/control",), []),
        (("mirror/control", "mirror/0123.json"), ["ganeti-mirrord"]),
        (("metad.json", "mirror/0123.json"), ["ganeti-metad", "ganeti-mirrord"]),
    ],
)
def test_a_daemon_is_wanted_while_there_is_something_for_it(
    files: tuple[str, ...], wanted: list[str], tmp_path: Path
) -> None:
    paths = Paths(str(tmp_path))
    for name in files:
        place = Path(paths.run_dir) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    assert demanded(paths, "node1.example.com") == wanted
