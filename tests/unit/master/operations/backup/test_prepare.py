# SPDX-License-Identifier: BSD-2-Clause
"""Preparing an export: nothing to tell within the cluster, refused for another one."""

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.backup.prepare import PrepareExport


def test_nothing_is_needed_within_the_cluster() -> None:
    ctx = FakeContext(configuration(), catalogue())
    add_instance(ctx.config.view(), "web1")
    assert run(PrepareExport(instance_name="web1", mode="local"), ctx) is None
    with pytest.raises(PrerequisiteError, match="Exports to other clusters are not possible yet"):
        run(PrepareExport(instance_name="web1", mode="remote"), ctx)
