# SPDX-License-Identifier: BSD-2-Clause
"""The fingerprint of a plan, which readers of reason trails see."""

from typing import Any

import pytest
from tests.fakes.sample_cluster import configuration

from ganeti.base.registry import import_all
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.master.planning.fingerprint import fingerprint


def of(**given: Any) -> str:
    import_all(operations)
    return fingerprint(decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", **given}), configuration())


@pytest.mark.parametrize("inner", [lambda word: {"word": word}, lambda word: {"word": word, "more": "x"}])
def test_it_tells_nothing_of_secrets(inner: Any) -> None:
    assert of(osparams_private_cluster={"os": inner("hunter2")}) == of(
        osparams_private_cluster={"os": inner("hunter3")}
    )


def test_it_tells_apart_what_is_shown() -> None:
    assert of(candidate_pool_size=2) != of(candidate_pool_size=3)
    assert of(osparams_private_cluster={"os": {"a": "x"}}) != of(osparams_private_cluster={"os": {"b": "x"}})
