# SPDX-License-Identifier: BSD-2-Clause
"""LUXI messages, and what is answered to those that are none."""

import pytest

from ganeti.base.errors import JobLost, TransportError
from ganeti.wire.luxi import EOM, MalformedRequest, decode_request, decode_response, encode_request, encode_response


def test_requests_and_responses_come_back():
    framed = encode_request("QueryJobs", [[1], ["id"]])
    assert framed.endswith(EOM) and framed.count(EOM) == 1
    assert decode_request(framed[:-1]) == ("QueryJobs", [[1], ["id"]])
    assert decode_response(encode_response(True, {"a": "\x03"})[:-1]) == {"a": "\x03"}


def test_an_error_is_raised_as_what_it_was():
    with pytest.raises(JobLost, match="Job 5"):
        decode_response(encode_response(False, ["JobLost", ["Job 5 not found"]])[:-1])


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense", b"[]", b"{}", b'{"method": 5}', b'{"method": "X", "args": 3}', b"[" * 50000]
)
def test_requests_that_are_none(raw):
    with pytest.raises(MalformedRequest, match="Failed to parse request"):
        decode_request(raw)


@pytest.mark.parametrize("raw", [b"", b"x", b"[]", b'{"success": true}'])
def test_answers_that_are_none(raw):
    with pytest.raises(TransportError):
        decode_response(raw)
