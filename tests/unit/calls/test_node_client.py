# SPDX-License-Identifier: BSD-2-Clause
"""A job's call whose answer was lost with its connection: it is sent again, with the same number."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import GanetiError, NodeUnreachableError, OtherReleaseError, ParameterError
from ganeti.base.paths import Paths
from ganeti.base.registry import find
from ganeti.calls import node_client
from ganeti.node.actions.registry import REGISTRY
from ganeti.node.answering_modules import HANDLERS


class Lossy:
    """Carries the first call to the node and loses the answer."""

    def __init__(self, silent: int) -> None:
        self.silent = silent
        self.calls: list[tuple[str, Any]] = []

    async def post(self, host: str, port: int, path: str, body: Any, *, limit_s: float, **_: Any) -> Any:
        plain = msgspec.json.decode(body if isinstance(body, bytes) else b"".join([piece async for piece in body]))
        self.calls.append((path, plain))
        if path == "/version":
            return 200, b'[true, "version"]'
        if self.silent:
            self.silent -= 1
            await asyncio.sleep(limit_s)
            raise node_client.NodeTimeoutError("silence")
        return 200, b'[true, "done"]'

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATCH_AFTER_S", "PROBE_EVERY_S", "ASK_AGAIN_S"):
        monkeypatch.setattr(node_client, name, 0.01)


def call(job: int, silent: int, within_s: float) -> tuple[Any, Lossy]:
    config = configuration()
    lossy = Lossy(silent)

    async def scenario() -> Any:
        client = node_client.NodeClient(Paths("/nowhere"), lambda: config, job, 1, lambda: 7, use_tls=False)
        await client._http.close()
        client._http = lossy  # type: ignore[assignment]
        (node, *_) = config.nodes()
        try:
            return await client.call(node.uuid, "instance_list", deadline_s=within_s)
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(scenario(), 30)), lossy


def test_the_same_call_is_sent_again_and_its_answer_taken() -> None:
    answer, lossy = call(5, 2, 20.0)
    asked = [plain for path, plain in lossy.calls if path == "/instance_list"]
    assert answer == "done" and len(asked) == 3
    assert asked[0] == asked[1] == asked[2], "another number would be another step"


def test_a_node_that_is_marked_offline_is_asked_for_its_version_alone() -> None:
    config, lossy = configuration(), Lossy(0)
    (node, *_) = config.nodes()
    config.put("nodes", node.uuid, replace(node, offline=True))

    async def scenario() -> Any:
        client = node_client.NodeClient(Paths("/nowhere"), lambda: config, use_tls=False)
        await client._http.close()
        client._http = lossy  # type: ignore[assignment]
        with pytest.raises(NodeUnreachableError, match="is marked offline, it is not called"):
            await client.call(node.uuid, "instance_list")
        return await client.call(node.uuid, "version")

    assert asyncio.run(scenario()) == "version" and [path for path, _ in lossy.calls] == ["/version"]


def test_what_has_no_number_is_waited_for() -> None:
    with pytest.raises(node_client.NodeTimeoutError):
        call(0, 2, 0.3)


def test_others_have_a_turn_before_very_many_nodes_are_all_called(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    seen: list[int] = []

    async def call_one(self: Any, node_uuid: str, call: str, /, **_: Any) -> str:
        begun.append(node_uuid)
        await asyncio.sleep(0.05)
        return node_uuid

    async def scenario() -> Any:
        client = node_client.NodeClient(Paths("/nowhere"), configuration, use_tls=False)
        for _ in range(3):
            asyncio.get_running_loop().call_soon(lambda: seen.append(len(begun)))
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, _look_again(seen, begun))
        try:
            return await client.call_many([str(number) for number in range(200)], "version")
        finally:
            await client.close()

    monkeypatch.setattr(node_client.NodeClient, "call", call_one)
    answers = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert [answer.value for answer in answers] == [str(number) for number in range(200)]
    assert any(0 < count < 100 for count in seen)


async def _look_again(seen: list[int], begun: list[str]) -> None:
    for _ in range(10):
        seen.append(len(begun))
        await asyncio.sleep(0)


def refusal(call: str, arguments: dict[str, Any]) -> list[Any]:
    """What a node daemon answers to a call with these arguments."""
    declared = find(REGISTRY, HANDLERS, call)
    assert declared is not None
    with pytest.raises(ParameterError) as refused:
        declared.decode(arguments)
    return refused.value.to_wire()


@pytest.mark.parametrize(
    "refused",
    [
        refusal("node_verify", {"checks": {"from-tomorrow": True}}),
        refusal("node_verify", {"checks": {}, "since_yesterday": 3}),
        refusal("node_verify", {}),
        ["ParameterError", ["Node call 'node_dance' is not known here"]],
    ],
)
def test_a_node_that_does_not_know_the_call_is_of_another_release(refused: list[Any]) -> None:
    (node, *_) = configuration().nodes()
    with pytest.raises(OtherReleaseError) as found:
        node_client._read_answer(node, "node_verify", 200, msgspec.json.encode([False, refused]))
    assert str(found.value) == (
        f"Node {node.name} runs another release than the master ({refused[1][0]}): install the master's package there"
    )


def test_a_wrong_value_is_the_fault_of_the_value() -> None:
    (node, *_) = configuration().nodes()
    refused = refusal("node_verify", {"checks": 3})
    with pytest.raises(GanetiError, match="Expected `object`") as found:
        node_client._read_answer(node, "node_verify", 200, msgspec.json.encode([False, refused]))
    assert not isinstance(found.value, OtherReleaseError)
