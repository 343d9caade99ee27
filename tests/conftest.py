# SPDX-License-Identifier: BSD-2-Clause
"""For every test: `tests.fakes` can be imported, interrupts work as elsewhere, laws take as many examples as asked.

And what `make check` leaves to `make test` is marked.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fakes.thoroughness import examples

THOROUGH = frozenset(
    f"{name}.py"
    for name in (
        *("contract/test_snapshots", "contract/test_storage", "property/test_locks", "property/test_solver"),
        "unit/bootstrap/test_interrupted_joining",
        *("property/test_why_numbers", "property/test_why_placement", "unit/cli/test_described"),
        *("unit/ganeti_simulation/test_apart", "unit/luxid/placement/test_capacities"),
        *("unit/luxid/placement/test_placements", "unit/node/backups/test_fat_files"),
        *(
            "unit/node/backups/test_xfs_files",
            "unit/node/storage/ext/test_ext_driver",
            "unit/placement/capacity/test_count",
        ),
        *("unit/placement/kernel/test_renewal", "unit/placement/test_little_memory", "unit/rapi/test_bad_requests"),
        *("unit/system/test_daemonize", "unit/tools/htools/test_command_lines", "unit/tools/htools/test_outputs"),
        "unit/tools/test_mon_collector",
    )
)
"""A third of the quick suite's time, measured: marked `thorough`, and run by `make test` and by name only."""

# A busy machine is no fault of a law: none has a deadline of its own.
settings.register_profile("house", max_examples=examples(100), deadline=None)
settings.load_profile("house")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so in the background, and in every process made from here
    signal.signal(signal.SIGINT, signal.default_int_handler)


_HERE = Path(__file__).resolve().parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is not chosen need not be read: a third of the tests."""
    return True if "not thorough" in config.option.markexpr and _is_thorough(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest chooses by marks."""
    thorough = {path for path in {item.path for item in items} if _is_thorough(path)}
    for item in items:
        if item.path in thorough:
            item.add_marker("thorough")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Programs that a test calls in this process set the umask for themselves, not for the tests after it."""
    umask = os.umask(0)
    os.umask(umask)
    try:
        return (yield)
    finally:
        os.umask(umask)


def pytest_collection() -> None:
    """Collecting makes a great many objects and no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there until the end need not be looked through each time that Python looks for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _is_thorough(path: Path) -> bool:
    return path.suffix == ".py" and path.is_relative_to(_HERE) and str(path.relative_to(_HERE)) in THOROUGH
