# SPDX-License-Identifier: BSD-2-Clause
"""Bodies of node calls: the same document, however long, and the loop goes on while it is written."""

import asyncio
import json
from pathlib import Path

import pytest

from ganeti.calls import node_requests
from ganeti.calls.node_requests import RequestBody, TextOfFile

TEXT = 'a "quoted" line\n\\ with \x01, \u00fc, \u20ac and \U0001f600 ' * 7


def written(body: RequestBody) -> tuple[bytes, int]:
    """Give the document and in how many pieces it came."""

    async def collect() -> list[bytes]:
        data = body.data
        return [data] if isinstance(data, bytes) else [piece async for piece in data]

    pieces = asyncio.run(collect())
    return b"".join(pieces), len(pieces)


@pytest.mark.parametrize("arguments", [{"content": TEXT}, {"path": "/x", "content": TEXT, "mode": 416, "more": TEXT}])
def test_a_long_argument_comes_in_pieces_every_time(monkeypatch: pytest.MonkeyPatch, arguments: dict) -> None:
    monkeypatch.setattr(node_requests, "_LONG", 10)
    body = RequestBody({"epoch": 3, "timeout_s": None}, arguments)
    for _ in range(2):
        document, pieces = written(body)
        assert json.loads(document) == {"epoch": 3, "timeout_s": None, "arguments": arguments}
        assert pieces > len(TEXT) / 10


def test_a_file_is_sent_as_it_is_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_requests, "_LONG", 10)
    body = RequestBody({"epoch": 3}, {"content": TextOfFile(str(tmp_path / "file"))})
    for text in (TEXT, "\r\n", ""):
        (tmp_path / "file").write_bytes(text.encode())
        assert json.loads(written(body)[0]) == {"epoch": 3, "arguments": {"content": text}}


def test_short_ones_are_written_at_once() -> None:
    document, pieces = written(RequestBody({"epoch": 3}, {"path": "/x"}))
    assert (json.loads(document), pieces) == ({"epoch": 3, "arguments": {"path": "/x"}}, 1)
