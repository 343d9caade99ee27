# SPDX-License-Identifier: BSD-2-Clause
"""What the balancing tools share: words on standard error, saved states, how to balance (spec: htools, 5)."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ganeti.placement.balance.steps import BalanceOptions, Step
    from ganeti.placement.cluster.picture import Cluster
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded


def complain(*lines: str, end: str = "\n") -> None:
    """Print *lines* on standard error; on a terminal, after what was printed before."""
    if sys.stdout.isatty():
        sys.stdout.flush()
    print(*lines, sep="\n", end=end, file=sys.stderr, flush=True)


def shell_word(text: str) -> str:
    """The value of a key as a shell reads it; letters, digits and dots stand bare."""
    if all(letter.isalnum() or letter == "." for letter in text):
        return text
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def balance_options(options: "Options") -> "BalanceOptions":
    """How the command line wants a group to be balanced."""
    from ganeti.placement.balance.steps import BalanceOptions

    return BalanceOptions(
        disk_moves=options.disk_moves,
        instance_moves=options.instance_moves,
        evacuation=options.evacuation,
        restricted_migration=options.restricted_migration,
        ignore_soft_errors=options.ignore_soft_errors,
        min_gain=options.min_gain,
        min_gain_limit=options.min_gain_limit,
        min_score=options.min_score,
        max_length=options.max_length,
    )


def save_state(
    options: "Options",
    state: "ClusterState",
    loaded: "Loaded",
    parts: tuple[str, str],
    chosen: tuple[Sequence[int], Sequence[int]] | None = None,
    steps: "Sequence[Step]" = (),
) -> None:
    """Write the cluster of ``-S`` in the text format; *parts* are the ending of the file and the words for when it is.

    *chosen* are nodes and instances of *state*, *steps* what led to it; without them the cluster is written as it was
    read. Raises `OSError`.
    """
    if options.save is None:
        return
    from ganeti.tools.htools.loading.sources import write_state

    ending, when = parts
    path = f"{options.save}.{ending}"
    write_state(path, _part(state, loaded, chosen, steps) if chosen else loaded.as_read, loaded.masters)
    complain(f"The cluster state {when} has been written to file '{path}'")


def _part(
    state: "ClusterState",
    loaded: "Loaded",
    chosen: tuple[Sequence[int], Sequence[int]],
    steps: "Sequence[Step]",
) -> "Cluster":
    """Nodes and instances of *state* as a cluster: free space and places are those of now."""
    from dataclasses import replace

    from ganeti.tools.htools.printing.spindles import free_spindles, touched_nodes

    real = [step for step in steps if not state.instances[step.instance].forthcoming]
    touched = touched_nodes(state, loaded.cluster) | {node for step in real for node in (*step.before, *step.after)}
    nodes = []
    for number in chosen[0]:
        view = state.view(number)
        spindles = free_spindles(view, number, touched)
        nodes.append(replace(view.node, free_disk_mib=view.free_disk_mib, free_spindles=spindles))
    placed = [
        replace(
            state.instances[number],
            primary=state.name_of(state.primary_of[number]),
            secondary=state.name_of(state.secondary_of[number]),
        )
        for number in chosen[1]
    ]
    return replace(loaded.cluster, nodes=nodes, instances=placed)


def die_interrupted() -> NoReturn:
    """End by the signal of Ctrl-C, as a shell that runs a list of commands expects."""
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    raise KeyboardInterrupt
