# SPDX-License-Identifier: BSD-2-Clause
"""Datagrams of ConfD: made and read by its rules, and nothing else is taken for an answer."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti.wire import confd

KEY = b"0123456789abcdef"
QUESTION = confd.Question(confd.Kind.NODE_INSTANCES, "node1.example.com", "token")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
)


def test_a_request_is_that_of_the_protocol() -> None:
    datagram = confd.request(QUESTION, 1700000000.9, KEY)
    assert datagram.startswith(b"plj0{")
    outer = json.loads(datagram[4:])
    assert outer["salt"] == "1700000000"
    assert outer["hmac"] == hmac.new(KEY, (outer["salt"] + outer["msg"]).encode(), hashlib.sha1).hexdigest()
    assert json.loads(outer["msg"]) == {"protocol": 1, "type": 8, "query": "node1.example.com", "rsalt": "token"}


@given(answer=JSON, serial=st.integers(0, 2**40), keys=st.lists(st.binary(min_size=1, max_size=8), max_size=2))
def test_what_is_answered_is_read(answer: Any, serial: int, keys: list[bytes]) -> None:
    datagram = confd.reply(QUESTION, answer, serial, KEY)
    assert confd.read_reply(datagram, QUESTION, [*keys, KEY]) == confd.Reply(answer, serial)
    refused = confd.reply(QUESTION, answer, serial, KEY, status=1)
    assert confd.read_reply(refused, QUESTION, [KEY]) == confd.Reply(None, serial)


@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_one_wrong_byte_is_no_answer(at: int, byte: int) -> None:
    datagram = bytearray(confd.reply(QUESTION, [["a", 1]], 7, KEY))
    at %= len(datagram)
    same, datagram[at] = datagram[at] == byte, byte
    found = confd.read_reply(bytes(datagram), QUESTION, [KEY])
    assert found is None or same or found == confd.Reply([["a", 1]], 7), "spaces of the outer object are not signed"


@given(datagram=st.binary(max_size=200) | JSON.map(lambda found: b"plj0" + json.dumps(found).encode()))
def test_nonsense_is_no_answer(datagram: bytes) -> None:
    assert confd.read_reply(datagram, QUESTION, [KEY]) is None


@pytest.mark.parametrize(
    "body", ["x", "[]", "{}", '{"protocol": 2, "status": 0, "answer": 1, "serial": 1}', "[" * 100000]
)
def test_signed_nonsense_is_no_answer(body: str) -> None:
    signature = hmac.new(KEY, ("token" + body).encode(), hashlib.sha1).hexdigest()
    outer = {"msg": body, "salt": "token", "hmac": signature}
    assert confd.read_reply(b"plj0" + json.dumps(outer).encode(), QUESTION, [KEY]) is None


def test_the_answer_to_another_question_is_none() -> None:
    other = confd.Question(confd.Kind.NODE_INSTANCES, "node1.example.com", "other")
    assert confd.read_reply(confd.reply(other, 1, 1, KEY), QUESTION, [KEY]) is None
    assert confd.read_reply(confd.reply(QUESTION, 1, 1, b"stranger"), QUESTION, [KEY]) is None
