# SPDX-License-Identifier: BSD-2-Clause
"""What a machine forgets that leaves its cluster."""

from __future__ import annotations

import os
from pathlib import Path

from ganeti.base.paths import Paths
from ganeti.bootstrap.leave import forget_cluster


def test_what_the_watcher_told_goes_too_and_what_is_the_administrators_stays(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    gone = [
        f"{paths.data_dir}/watcher.u1.data",
        f"{paths.run_dir}/instance-status",
        f"{paths.run_dir}/instance-status.group-u1",
        f"{paths.run_dir}/ganeti-watcher-look.json",
    ]
    kept = [f"{paths.data_dir}/mine/notes", f"{paths.run_dir}/other"]
    for path in (*gone, *kept):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
    assert forget_cluster(paths) == ["watcher.u1.data"]
    assert [path for path in (*gone, *kept) if os.path.exists(path)] == kept
