# SPDX-License-Identifier: BSD-2-Clause
"""LUXI requests, and what is answered to those that are none."""

import pytest

from ganeti.wire.luxi import MalformedRequest, read_request


def test_method_and_arguments_are_read():
    assert read_request({"method": "QueryJobs", "args": [[1], ["id"]], "version": 3010000}) == (
        "QueryJobs",
        [[1], ["id"]],
    )
    assert read_request({"method": "QueryClusterInfo", "args": None}) == ("QueryClusterInfo", [])


@pytest.mark.parametrize("data", [[], {}, {"method": 5}, {"method": "X", "args": 3}, None])
def test_requests_that_are_none(data):
    with pytest.raises(MalformedRequest, match="Failed to parse request"):
        read_request(data)
