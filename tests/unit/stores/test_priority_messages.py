# SPDX-License-Identifier: BSD-2-Clause
"""Messages with new priorities: the newest counts, once."""

import os

from ganeti.base.paths import Paths
from ganeti.stores import priority_messages


def test_the_newest_message_is_taken_once(tmp_path):
    paths = Paths(str(tmp_path))
    os.makedirs(paths.run_dir)
    assert priority_messages.take(paths, 7) is None
    priority_messages.leave(paths, 7, 10)
    priority_messages.leave(paths, 7, -10)
    priority_messages.leave(paths, 8, 3)
    assert priority_messages.take(paths, 7) == -10
    assert priority_messages.take(paths, 7) is None
    assert os.listdir(f"{paths.run_dir}/luxidmessages") == ["8.prio"]


def test_nonsense_is_no_priority_and_goes(tmp_path):
    paths = Paths(str(tmp_path))
    os.makedirs(paths.run_dir)
    for text in ("", "high", "-21", "20"):
        priority_messages.leave(paths, 7, 0)
        path = f"{paths.run_dir}/luxidmessages/7.prio"
        with open(path, "w") as file:
            file.write(text)
        assert priority_messages.take(paths, 7) is None
        assert not os.path.exists(path)
