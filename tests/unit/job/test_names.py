# SPDX-License-Identifier: BSD-2-Clause
"""Jobs ask for addresses of the cluster's family: a name may have those of the other alone."""

import asyncio

import pytest

from ganeti.base.errors import ResolverError
from ganeti.job.context import Names


@pytest.mark.requirement("S1.102")
@pytest.mark.parametrize(
    ("family", "own", "other", "version"), [(2, "127.0.0.1", "::1", 4), (10, "::1", "127.0.0.1", 6)]
)
def test_a_name_has_an_address_of_the_family_that_is_asked_for(family: int, own: str, other: str, version: int) -> None:
    assert asyncio.run(Names().resolve(own, family))[1] == own
    with pytest.raises(ResolverError, match=rf"The name '{other}' has no IPv{version} address \(.+\): enter it into"):
        asyncio.run(Names().resolve(other, family))
