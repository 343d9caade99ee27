# SPDX-License-Identifier: BSD-2-Clause
"""What a node tells of its processors."""

import pytest

from ganeti.node.hypervisors import capacity


def test_the_nodes_own_system_is_counted_with_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    found = capacity.capacity_of([], None)
    assert (found.cpu_total, found.cpu_dom0) == (16, 16)
