# SPDX-License-Identifier: BSD-2-Clause
"""An answer is the same however its bytes are cut, and what is no answer is refused however it is cut."""

from __future__ import annotations

import pytest

from ganeti.system.http_answers import Answer, AnswerReader, NotHttp, TooLong

HEAD = b"HTTP/1.1 200 OK\r\nServer: x\r\n"
ANSWERS = [
    (HEAD + b"Content-Length: 2\r\n\r\nok", Answer(200, b"ok", True)),
    (HEAD + b"CONTENT-LENGTH:0\r\n\r\n", Answer(200, b"", True)),
    (HEAD + b"Connection: Close\r\nContent-Length: 2\r\n\r\nok", Answer(200, b"ok", False)),
    (b"HTTP/1.0 404 No\r\nContent-Length: 2\r\n\r\nok", Answer(404, b"ok", False)),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"", True)),
    (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\na;x\r\n0123456789\r\n0\r\n\r\n",
        Answer(200, b"ab0123456789", True),
    ),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 7\r\n\r\n", Answer(200, b"", True)),
]


@pytest.mark.parametrize(("data", "answer"), ANSWERS)
def test_an_answer_is_the_same_however_it_is_cut(data: bytes, answer: Answer) -> None:
    for size in (1, 2, 3, 7, len(data)):
        reader = AnswerReader()
        told = [reader.feed(data[at : at + size]) for at in range(0, len(data), size)]
        assert told[:-1] == [None] * (len(told) - 1) and told[-1] == answer, size
    assert AnswerReader().feed(data + b"more") == answer._replace(goes_on=False)


@pytest.mark.parametrize(("data", "answer"), ANSWERS)
def test_an_answer_that_ends_too_early_is_none(data: bytes, answer: Answer) -> None:
    for end in range(len(data)):
        reader = AnswerReader()
        assert reader.feed(data[:end]) is None
        with pytest.raises(EOFError):
            reader.end()


def test_an_answer_without_a_length_goes_to_the_end() -> None:
    reader = AnswerReader(limit_bytes=4)
    assert [reader.feed(each) for each in (HEAD + b"\r\nab", b"cd")] == [None, None]
    assert reader.end() == Answer(200, b"abcd", False)


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example.com ESMTP\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1_0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(NotHttp):
        AnswerReader().feed(data)
    reader = AnswerReader()
    with pytest.raises(NotHttp):
        for at in range(len(data)):
            reader.feed(data[at : at + 1])


@pytest.mark.parametrize("head", [b"Content-Length: 5\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\n", b"\r\n"])
def test_a_body_longer_than_allowed_is_refused_before_it_is_read(head: bytes) -> None:
    reader = AnswerReader(limit_bytes=4)
    with pytest.raises(TooLong):
        reader.feed(HEAD + head + b"abcde")


def test_chunks_are_bounded_together() -> None:
    reader = AnswerReader(limit_bytes=4)
    with pytest.raises(TooLong):
        reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\n")
