# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong in burnin's own words is said before the cluster is asked anything."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti.base.errors import GanetiError
from ganeti.tools.burnin import command


class NoCluster:
    def ask(self, *words: Any) -> Any:
        raise AssertionError(f"asked: {words}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--disk-size", "1x"], "1x"),
        (["--disk-growth", "1m,2m,3m"], "needs one size"),
        (["--mem-size", "much"], "much"),
        (["-t", "paper"], "no disk template paper"),
        (["--reboot-types", "cold"], "no reboot type cold"),
    ],
)
def test_bad_words_are_refused_without_a_cluster(words: list[str], sentence: str) -> None:
    options = command._parser().parse_args(["-o", "plain", *words, "web1"])
    with pytest.raises(GanetiError, match=sentence):
        command.check(options, NoCluster())  # type: ignore[arg-type]
