# SPDX-License-Identifier: BSD-2-Clause
"""Memory that cannot be had: each question of the kernel ends with one error, and changes nothing.

Each law is asked in a process of its own: of a kernel compiled so that an allocation fails at will, and of the real
one in a process that may not grow.
"""

import ctypes
import os
import re
import resource
import subprocess
import sys
from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.cluster_drawing import draw
from tests.fakes.cluster_files import to_text
from tests.fakes.thoroughness import QUICK, examples

from ganeti.base.errors import ExecutionError
from ganeti.placement.allocate.relocate import allocate_secondary
from ganeti.placement.balance.steps import BalanceOptions, _Balancing, best_step
from ganeti.placement.capacity.count import Allocation, Room, Size
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.searches import (
    NodeSearch,
    best_exchange,
    best_target,
    failing_nodes,
    fill_nodes,
    find_dedicated_nodes,
    find_nodes,
    shared_redundancy,
)
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import AllocateSecondary, Options
from ganeti.placement.why.tallies import failures_of
from ganeti.tools.htools.programs import hbal

ROOT = Path(__file__).parents[3]
SOURCES = Path(kernel.LIBRARY).parent
SEEDS = range(examples(4))
ALLOCATIONS = """
#include <stdlib.h>
extern long allocations_left;  // the one that gets it to 0 fails, and with `for_good` all after it
extern long for_good;
static inline int is_refused(void) {
    return allocations_left > 0 ? !--allocations_left : !allocations_left && for_good;
}
static inline void *drawn_malloc(size_t n) { return is_refused() ? NULL : malloc(n); }
static inline void *drawn_calloc(size_t n, size_t size) { return is_refused() ? NULL : calloc(n, size); }
static inline void *drawn_realloc(void *old, size_t n) { return is_refused() ? NULL : realloc(old, n); }
static inline void *drawn_aligned(size_t to, size_t n) { return is_refused() ? NULL : aligned_alloc(to, n); }
#define malloc drawn_malloc
#define calloc drawn_calloc
#define realloc drawn_realloc
#define aligned_alloc drawn_aligned
"""
NEW_TAG = "new"
COUNTERS = '__attribute__((visibility("default"))) long allocations_left = -1, for_good = 0;\n'

Question = Callable[[ClusterState], object]


def run_apart(*arguments: str, failing: bool = False) -> tuple[int, str, str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert failing or (done.returncode, done.stderr) == (0, ""), done
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def refusing_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kernel")
    (place / "allocations.h").write_text(ALLOCATIONS)
    (place / "allocations.c").write_text(COUNTERS)
    sources = [*map(str, sorted(SOURCES.glob("*.c"))), str(place / "allocations.c")]
    options = ["-std=c11", "-O0", "-ffp-contract=off", "-fvisibility=hidden", "-fPIC", "-shared"]
    command = [
        "cc",
        *options,
        "-include",
        str(place / "allocations.h"),
        *sources,
        "-o",
        str(place / "kernel.so"),
        "-lm",
    ]
    subprocess.run(command, check=True, timeout=300)
    return place / "kernel.so"


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for-good"])
def test_whichever_allocation_fails_there_is_an_error_and_no_change(refusing_kernel: Path, for_good: bool) -> None:
    run_apart("each", str(refusing_kernel), str(int(for_good)))


def test_tables_of_tags_that_could_not_grow_are_grown_before_they_are_used(refusing_kernel: Path) -> None:
    run_apart("growth", str(refusing_kernel))


@pytest.mark.parametrize("law", ["search", "trial", "moves"])
def test_a_process_that_may_not_grow_says_so(law: str) -> None:
    run_apart(law)


def test_a_tool_ends_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "cluster.data"
    file.write_text(to_text(draw(3, "mirrored", nodes=40, instances=600)))
    steps = range(0, 9, 1 if not QUICK else 4)
    told = [run_apart("hbal", str(step * 2**19), "-t", str(file), "-l", "3", failing=True) for step in steps]
    for status, output, complaint in told:
        if status:
            assert status == 1
            assert re.fullmatch(r"Error: There is no memory left [^\n]*\n", complaint)
        else:
            assert (output, complaint) == (told[-1][1], "")
    assert (told[0][0], told[-1][0]) == (1, 0)


# What runs apart


def picture(state: ClusterState) -> object:
    nodes = [(state.listed(node), state.listed(node, secondary=True)) for node in state.everyone()]
    places = list(state.primary_of), list(state.secondary_of), len(state.instances)
    return nodes, state.score(state.everyone()), places, state._marks


def mirrored(state: ClusterState) -> list[int]:
    return [number for number, other in enumerate(state.secondary_of) if other != NOWHERE]


def balancing(state: ClusterState, *, exhaustive: bool) -> object:
    options = BalanceOptions(exhaustive=exhaustive)
    return _Balancing(state, state.everyone(), [True] * len(state.instances), options).best_step()


def new_nodes(state: ClusterState, find: Callable[[ClusterState, NodeSearch], object], required: int) -> object:
    members = [node for node in state.group_members(0) if state.online[node]]
    mark = state.mark()
    try:
        template = "drbd" if required > 1 else "plain"
        coming = replace(state.instances[0], name="new", template=template, primary="", secondary="")
        number = state.add_instance(coming, NOWHERE)
        return find(state, NodeSearch(number, required, members, members, members))
    finally:
        state.rollback(mark)


def with_new_tags(state: ClusterState) -> object:
    """An instance with more exclusion tags than there were, beside which no other with one of them may be."""
    mark = state.mark()
    try:
        own = tuple(f"{NEW_TAG}:{number}" for number in range(2000))
        coming = replace(state.instances[0], name="new", tags=own, primary="", secondary="")
        for node in state.group_members(0)[:2]:
            state.add_instance(coming, node)
        return state.components(state.everyone())
    finally:
        state.rollback(mark)


def paired(state: ClusterState) -> object:
    alone = [one.name for one, other in zip(state.instances, state.secondary_of, strict=True) if other == NOWHERE]
    return [allocate_secondary(state, AllocateSecondary(name), Options()) for name in alone[:2]]


def counted(state: ClusterState, *, nodes_each: int, checked: bool) -> object:
    everyone = tuple(state.everyone())
    candidates = tuple(node for node in everyone if state.online[node])
    template = "drbd" if nodes_each > 1 else "plain"
    mark = state.mark()
    try:
        counting = Allocation(state, Room(template, nodes_each, 1, candidates, everyone, everyone if checked else ()))
        counting.fill(Size(4096, 8192, 1, 1), 12)
        return counting.placed, counting.against(Size(2**30, 1, 1, 1))
    finally:
        state.rollback(mark)


def shared(state: ClusterState) -> object:
    with shared_redundancy(state, state.everyone(), state.everyone()):
        return None


def moved(state: ClusterState) -> object:
    mark = state.mark()
    try:
        for _ in range(100):
            state.move(0, state.primary_of[0], state.secondary_of[0])
        return None
    finally:
        state.rollback(mark)


def of_mirrored(state: ClusterState, question: Callable[[int], object]) -> object:
    return [question(number) for number in mirrored(state)[:2]]


QUESTIONS: tuple[Question, ...] = (
    lambda state: best_step(state, state.everyone(), [True] * len(state.instances), BalanceOptions()),
    lambda state: balancing(state, exhaustive=False),
    lambda state: balancing(state, exhaustive=True),
    lambda state: new_nodes(state, find_nodes, 1),
    lambda state: new_nodes(state, find_nodes, 2),
    lambda state: new_nodes(state, lambda own, asked: fill_nodes(own, asked, 9), 1),
    lambda state: new_nodes(state, lambda own, asked: fill_nodes(own, asked, 9), 2),
    lambda state: new_nodes(state, lambda own, asked: find_dedicated_nodes(own, asked, [(512, 1024, 1, 1)]), 2),
    lambda state: failing_nodes(state, state.everyone(), state.everyone()),
    shared,
    moved,
    with_new_tags,
    paired,
    lambda state: counted(state, nodes_each=1, checked=False),
    lambda state: counted(state, nodes_each=2, checked=True),
    lambda state: failures_of(state),
    lambda state: of_mirrored(
        state,
        lambda number: best_target(state, number, "secondary", state.everyone(), state.everyone(), forced=False),
    ),
    lambda state: of_mirrored(
        state, lambda number: best_exchange(state, number, state.everyone(), state.everyone(), forced=False)
    ),
)


def each_allocation_fails(library: str, for_good: bool) -> None:
    kernel.LIBRARY = library
    loaded = kernel.library()
    left, lasting = (ctypes.c_long.in_dll(loaded, name) for name in ("allocations_left", "for_good"))
    lasting.value = for_good
    refused = 0
    for seed in SEEDS:
        cluster = draw(seed, ("mirrored", "equal", "mixed", "full")[seed], nodes=6, instances=16).cluster
        cluster = replace(cluster, tags=(*cluster.tags, f"htools:iextags:{NEW_TAG}"))
        for number, question in enumerate(QUESTIONS):
            calm = ClusterState(cluster)
            if not calm.instances:
                continue
            expected, before, at = question(calm), picture(calm), 0
            while True:
                state, at = ClusterState(cluster), at + 1
                left.value = at
                try:
                    assert question(state) == expected or left.value > 0, (seed, number, at)
                    ended = left.value > 0
                except ExecutionError as error:
                    assert str(error).startswith("There is no memory")
                    refused, ended = refused + 1, False
                left.value = -1
                assert picture(state) == before, (seed, number, at)
                assert question(state) == expected, (seed, number, at)
                if ended:
                    break
    assert refused > 20 * len(SEEDS)


def growth_fails_again(library: str) -> None:
    """Where the tables of exclusion tags could not grow, each later attempt grows them first, or fails as well."""
    kernel.LIBRARY = library
    left = ctypes.c_long.in_dll(kernel.library(), "allocations_left")
    cluster = draw(0, "mirrored", nodes=6, instances=16).cluster
    state = ClusterState(replace(cluster, tags=(f"htools:iextags:{NEW_TAG}",)))
    for _ in range(3):
        left.value = 1
        with pytest.raises(ExecutionError, match="There is no memory"):
            with_new_tags(state)
        assert left.value == 0, "it was asked for"
    left.value = -1
    with_new_tags(state)


def limit_growth(size: int) -> int:
    """Have the process become larger by *size* bytes at most; gives the former limit."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, most))
    return most


def bar_growth() -> Callable[[], None]:
    """Take all memory that may still be had but for crumbs; gives what lets go of it. Works once in a process."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    held, count = array("Q", bytes(8 * 2**18)), 0
    most = limit_growth(0)
    for size in (2**20, 2**16, 2**12, 2**10):
        while place := libc.malloc(size):
            held[count], count = place, count + 1

    def let_go() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for at in range(count):
            libc.free(held[at])

    return let_go


def search_without_memory(*, exhaustive: bool) -> None:
    cluster = draw(3, "mirrored", nodes=20, instances=200).cluster
    state, calm = ClusterState(cluster), ClusterState(cluster)
    members, movable = state.everyone(), [True] * len(state.instances)
    expected, before = best_step(calm, members, movable, BalanceOptions()), picture(state)
    asked = _Balancing(state, members, movable, BalanceOptions(exhaustive=exhaustive))
    let_go, message = bar_growth(), ""
    try:
        asked.best_step()
    except ExecutionError as error:
        message = str(error)
    let_go()
    assert message.startswith("There is no memory left for a search"), message
    assert picture(state) == before
    assert asked.best_step() == expected is not None


def moves_without_memory() -> None:
    state = ClusterState(draw(3, "mirrored", nodes=20, instances=200).cluster)
    before, mark = picture(state), state.mark()
    let_go, message = bar_growth(), ""
    try:
        for number in range(len(state.instances)):
            state.move(number, state.primary_of[number], state.secondary_of[number])
    except ExecutionError as error:
        message = str(error)
    let_go()
    assert message.startswith("There is no memory left to move"), message
    state.rollback(mark)
    assert picture(state) == before


if __name__ == "__main__":
    LAWS: dict[str, Callable[[], None]] = {
        "search": partial(search_without_memory, exhaustive=False),
        "trial": partial(search_without_memory, exhaustive=True),
        "moves": moves_without_memory,
    }
    if sys.argv[1] == "each":
        each_allocation_fails(sys.argv[2], bool(int(sys.argv[3])))
    elif sys.argv[1] == "growth":
        growth_fails_again(sys.argv[2])
    elif sys.argv[1] == "hbal":
        kernel.library()
        limit_growth(int(sys.argv[2]))
        sys.exit(hbal.main(sys.argv[3:]))
    else:
        LAWS[sys.argv[1]]()
