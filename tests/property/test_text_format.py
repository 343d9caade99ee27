# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the files the placement tools read: what is written is read back, and no input ends in a traceback."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.base.errors import ParameterError
from ganeti.model.templates import TEMPLATES
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import Policy, Spec
from ganeti.placement.request.reading import read_cluster, read_request
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.loading import allocator_input, allocator_records, text
from ganeti.tools.htools.loading import sources as loading
from ganeti.wire.iallocator import modern

GOLDEN = Path(__file__).parents[1] / "golden"
names = st.text(alphabet="abé.-1", min_size=1, max_size=8)
words = st.lists(st.text(alphabet="ab:é", min_size=1, max_size=5), max_size=3).map(tuple)
wholes = st.integers(-(2**40), 2**40)
totals = wholes.map(float)
specs = st.builds(Spec, wholes, wholes, wholes, wholes, wholes, wholes)
ratios = st.floats(allow_nan=False)
policies = st.builds(
    Policy,
    specs,
    st.lists(st.tuples(specs, specs), max_size=3).map(tuple),
    st.lists(st.sampled_from(list(TEMPLATES)), max_size=4).map(tuple),
    ratios,
    ratios,
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    groups = [
        Group(uuid, name, draw(st.sampled_from(AllocPolicy)), draw(policies), draw(words), draw(words))
        for uuid, name in draw(st.lists(st.tuples(names, names), max_size=3, unique_by=lambda pair: pair[1]))
    ]
    nodes = [draw(_nodes(name, groups)) for name in draw(st.lists(names, max_size=4))] if groups else []
    instances = [draw(_instances(name, nodes)) for name in draw(st.lists(names, max_size=4))] if nodes else []
    tags = draw(st.lists(st.text(alphabet="ab:|é ", min_size=1, max_size=6), max_size=3))
    return Cluster(nodes, instances, groups, tags, draw(policies))


@st.composite
def _nodes(draw: st.DrawFn, name: str, groups: list[Group]) -> Node:
    return Node(
        name=name,
        group=draw(st.sampled_from(groups)).uuid,
        total_memory_mib=draw(totals),
        node_memory_mib=draw(wholes),
        free_memory_mib=draw(wholes),
        total_disk_mib=draw(totals),
        free_disk_mib=draw(wholes),
        total_cpus=draw(totals),
        node_cpus=draw(wholes),
        unavailable=draw(st.sampled_from(("", "offline"))),
        spindles=draw(wholes),
        free_spindles=draw(wholes),
        exclusive_storage=draw(st.booleans()),
        cpu_speed=draw(ratios),
        tags=draw(words),
    )


@st.composite
def _instances(draw: st.DrawFn, name: str, nodes: list[Node]) -> Instance:
    primary = draw(st.sampled_from(nodes)).name
    secondary = draw(st.sampled_from(["", *(node.name for node in nodes if node.name != primary)]))
    size = draw(wholes)
    return Instance(
        name=name,
        memory_mib=draw(wholes),
        disk_mib=size,
        vcpus=draw(wholes),
        template=draw(st.sampled_from(list(TEMPLATES))),
        primary=primary,
        secondary=secondary,
        disks=(Disk(size, draw(st.none() | wholes)),),
        status=draw(st.sampled_from(Status)),
        auto_balance=draw(st.booleans()),
        spindle_use=draw(wholes),
        forthcoming=draw(st.booleans()),
        tags=draw(words),
    )


@given(clusters(), st.data())
def test_what_is_written_is_read_back(cluster: Cluster, data: st.DataObject) -> None:
    online = [node.name for node in cluster.nodes if not node.unavailable]
    masters = data.draw(st.lists(st.sampled_from(online), unique=True)) if online else []
    written = text.write(cluster, masters)
    found, found_masters = text.read(written)
    assert found == cluster
    assert set(found_masters) == set(masters)
    assert text.write(found, found_masters) == written


SAMPLES = [path.read_text(errors="replace") for path in sorted((GOLDEN / "htools" / "clusters").glob("*.data"))[:6]]


@st.composite
def mutated(draw: st.DrawFn, samples: list[str], pieces: str) -> str:
    """One of *samples* with a few letters taken out, doubled or replaced."""
    found = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        length = draw(st.sampled_from((0, 1, 2, 9, 60)))
        put = draw(
            st.one_of(st.text(alphabet=pieces, max_size=4), st.just(found[at : at + length] * 2), st.text(max_size=2))
        )
        found = found[:at] + put + found[at + length :]
    return found


@settings(max_examples=examples(400))
@given(mutated(SAMPLES, "|\n,;?-.Yx019e"))
def test_no_text_is_more_than_an_error(data: str) -> None:
    try:
        cluster, masters = text.read(data)
    except ParameterError as error:
        assert str(error)
    else:
        loading.prepared(loading.Source(cluster, masters), Options())
        assert len(text.read(text.write(cluster, masters))[0].nodes) == len(cluster.nodes)


def _messages() -> list[str]:
    lines = (GOLDEN / "iallocator" / "answers.jsonl").read_text().splitlines()
    return [json.dumps(json.loads(line)["message"]) for line in lines[:12]]


MESSAGES = _messages()


def _is_json(data: bytes) -> bool:
    """3.0 reads a little more, such as 4. for a number, and so do the tools."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _names_a_key_twice(data: bytes) -> bool:
    """Which of the two counts depends on the size of the message (docs/operator/htools.md)."""
    found = []

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    with contextlib.suppress(ValueError, RecursionError):
        json.loads(data, object_pairs_hook=look)
    return any(found)


def _slowly(data: bytes) -> tuple[Cluster, object]:
    message = modern(json.loads(data))
    return read_cluster(message, static_node_memory_mib=4096), message.get("request")


@settings(max_examples=examples(300))
@given(mutated(MESSAGES, '{}[]",:019.-enx\\'))
@example(MESSAGES[0].replace('"vcpu-ratio": 4.0', '"vcpu-ratio": 4.', 1))
@example(MESSAGES[0].replace('"nodegroups": {', '"nodegroups": {"odd": 4.0}, "nodegroups": {', 1))
def test_no_message_is_more_than_an_error_and_fast_reading_is_slow_reading(data: str) -> None:
    encoded = data.encode(errors="surrogatepass")
    try:
        found = allocator_input.read(encoded, "input", static_node_memory_mib=4096, small_bytes=-1)
        read_request(found[1])
    except ParameterError as error:
        assert str(error)
    else:
        if _names_a_key_twice(encoded):
            return
        assert found == allocator_input.read(encoded, "input", static_node_memory_mib=4096, small_bytes=len(encoded))
        if _is_json(encoded):
            assert found == _slowly(encoded)


@pytest.mark.parametrize("data", MESSAGES)
def test_messages_are_read_fast_as_they_are_read_slowly(data: str) -> None:
    changed = data.replace('"admin_state": "up"', '"admin_state": "down"', 1)
    for message in (data, changed):
        fast = allocator_records.read(message.encode(), 0)
        assert fast is not None
        assert fast[0] == read_cluster(modern(json.loads(message)), static_node_memory_mib=0)
