# SPDX-License-Identifier: BSD-2-Clause
"""The same seed gives the same trace in two real processes, whatever the order of their hashes."""

import re

import pytest


def _trace(ran):
    assert ran.status == 0, ran
    return re.search(r"trace ([0-9a-f]{32})$", ran.out, re.MULTILINE)[1]


@pytest.mark.parametrize(("seed", "nodes"), [(3, 3), (4, 5), (8, 7)])
def test_the_same_seed_gives_the_same_trace(simulate, seed, nodes):
    words = ("--seed", seed, "--nodes", nodes)
    assert _trace(simulate(*words)) == _trace(simulate(*words))


def test_another_seed_gives_another_trace(simulate):
    assert _trace(simulate("--seed", 3, "--nodes", 3)) != _trace(simulate("--seed", 4, "--nodes", 3))


def test_a_campaign_has_one_trace_however_many_are_played_at_once(simulate):
    words = ("--seeds", "1-4")
    assert _trace(simulate(*words, "--jobs", 1)) == _trace(simulate(*words, "--jobs", 3))
