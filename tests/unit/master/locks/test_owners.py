# SPDX-License-Identifier: BSD-2-Clause
"""Owners of locks as they come over the socket."""

import pytest

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner


def test_an_owner_is_read_and_written_alike():
    assert Owner.from_wire([7, "/run/job_7_1", 12]).to_wire() == [7, "/run/job_7_1", 12]


@pytest.mark.parametrize(
    "client", [None, [], [True, "/run/x", 1], [1, "", 1], [1, "/run/\0x", 1], [1, 2, 3], [1, "/x"]]
)
def test_what_is_no_owner(client):
    with pytest.raises(LockError, match="is not a client"):
        Owner.from_wire(client)
