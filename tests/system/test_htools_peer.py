# SPDX-License-Identifier: BSD-2-Clause
"""Our placement tools beside Debian's on random clusters; ``tests/differential`` says how, and replays what failed."""

import os
import random
from pathlib import Path

import pytest
from tests.differential import dedicated_cases, odd_requests, other_cases, third_cases
from tests.differential.cases import TOOLS, cases
from tests.differential.execution import execute, peer
from tests.differential.replay import planned, printed
from tests.differential.run import look, seeds_of

KEPT = Path(__file__).resolve().parents[2] / ".cache" / "htools-differences"
LONG = bool(os.environ.get("GANETI_CAMPAIGN"))
SEEDS = seeds_of(os.environ.get("GANETI_SEEDS", "1-20000") if LONG else "0-11")
NOT_YET: set[tuple[str, int]] = set()
"""Differences known and not settled: tools and seeds."""
OTHER_SEEDS = seeds_of("1-8")
"""Of the other drawing, in the short run."""
THIRD_SEEDS = seeds_of("1-8")
"""Of the third drawing, in the short run."""
ODD_SEEDS = seeds_of("1-40")
"""Of odd requests, which are quick, in the short run."""
DEDICATED_SEEDS = seeds_of("1-16")
"""Of clusters with exclusive storage, in the short run."""
SMALL = 8
"""Nodes of the clusters the definition plans for: it is slow."""


@pytest.fixture(scope="module", autouse=True)
def beside():
    """Debian's tools; where they cannot be had there is nothing to compare with."""
    if not peer()[0]:
        pytest.skip(peer()[1])


@pytest.mark.parametrize("tool", TOOLS)
def test_same_bytes_as_the_peer(tool: str) -> None:
    told = [text for seed in SEEDS if (tool, seed) not in NOT_YET for text in look(seed, [tool], KEPT)]
    assert not told, f"{len(told)} of {len(SEEDS)} differ; their files are in {KEPT}\n" + "\n".join(told[:5])


@pytest.mark.parametrize("tool", other_cases.TOOLS)
def test_same_bytes_on_clusters_of_the_other_drawing(tool: str) -> None:
    seeds = SEEDS if LONG else OTHER_SEEDS
    told = [text for seed in seeds for text in look(seed, [tool], KEPT, "other")]
    assert not told, f"{len(told)} of {len(seeds)} differ; their files are in {KEPT}\n" + "\n".join(told[:5])


@pytest.mark.parametrize("tool", third_cases.TOOLS)
def test_same_bytes_on_unlike_groups_with_odd_words(tool: str) -> None:
    seeds = SEEDS if LONG else THIRD_SEEDS
    told = [text for seed in seeds for text in look(seed, [tool], KEPT, "third")]
    assert not told, f"{len(told)} of {len(seeds)} differ; their files are in {KEPT}\n" + "\n".join(told[:5])


def test_same_bytes_for_odd_requests() -> None:
    seeds = SEEDS if LONG else ODD_SEEDS
    told = [text for seed in seeds for text in look(seed, list(odd_requests.TOOLS), KEPT, "odd")]
    assert not told, f"{len(told)} of {len(seeds)} differ; their files are in {KEPT}\n" + "\n".join(told[:5])


@pytest.mark.parametrize("tool", dedicated_cases.TOOLS)
def test_same_bytes_on_dedicated_clusters(tool: str) -> None:
    seeds = SEEDS if LONG else DEDICATED_SEEDS
    told = [text for seed in seeds for text in look(seed, [tool], KEPT, "dedicated")]
    assert not told, f"{len(told)} of {len(seeds)} differ; their files are in {KEPT}\n" + "\n".join(told[:5])


def test_the_definition_plans_as_the_peer_does(tmp_path: Path) -> None:
    """The definition itself is held to the peer: what else says that the kernel's meaning is the right one?"""
    steps = 0
    for seed in random.Random(5).sample(SEEDS if LONG else range(20), 500 if LONG else 20):
        (case,) = cases(seed, ["hbal"])
        if len(case.cluster.nodes) > SMALL:
            continue
        outcome = execute([*peer()[0], "hbal"], case, tmp_path / str(seed))
        if outcome.exit == 0:
            steps += len(printed(outcome.stdout))
            assert printed(outcome.stdout) == planned(case), case.command()
    assert steps > 10
