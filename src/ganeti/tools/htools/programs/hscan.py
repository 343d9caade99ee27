# SPDX-License-Identifier: BSD-2-Clause
"""``hscan``: one line about each of several clusters, and a text file with it (spec: htools, 12)."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganeti.base.errors import GanetiError
from ganeti.tools.htools.haskell.failures import failed_open
from ganeti.tools.htools.haskell.figures import fixed
from ganeti.tools.htools.printing import standing
from ganeti.tools.htools.printing.tables import node_table
from ganeti.tools.htools.programs import program

if TYPE_CHECKING:
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.records import Records
    from ganeti.tools.htools.loading.sources import Loaded

EXIT_SOME_FAILED = 2
_LOCAL = "LOCAL"
_HEADER = "Name"
_MIB_PER_GIB = 1024


def scan_clusters(options: "Options") -> int:
    """Describe every cluster that is named, or the one of this machine; gives the exit status.

    A cluster that cannot be read is told between the others and makes the status 2. Raises `OSError` for a file that
    cannot be written.
    """
    names = options.arguments or [_LOCAL]
    width = max(map(len, (_HEADER, *names)))
    if options.headers:
        print(
            f"{_HEADER:{width}} {'Nodes':>5} {'Inst':>5} {'BNode':>5} {'BInst':>5}"
            f" {'t_mem':>6} {'f_mem':>6} {'t_disk':>6} {'f_disk':>6} {'Score':>10}"
        )
    fetch = _from_server if options.arguments else _from_master
    done = [_scan(name, fetch, width, options) for name in names]
    return 0 if all(done) else EXIT_SOME_FAILED


def _scan(name: str, fetch: "Callable[[str, Options], Records]", width: int, options: "Options") -> bool:
    """Show and save one cluster; false if it cannot be read."""
    from ganeti.tools.htools.loading import records
    from ganeti.tools.htools.loading.sources import Source, prepared, write_state

    try:
        found = fetch(name, options)
        reported, master = records.read(found, static_node_memory_mib=0)
        cluster, _ = records.read(found, static_node_memory_mib=options.static_node_memory_mib)
    except (GanetiError, OSError) as error:
        reason = failed_open(error) if isinstance(error, OSError) else error
        print(f"\nError for {name}: failed to load data. Details:\n{reason}", flush=True)
        return False
    loaded = prepared(Source(cluster, [master]), _quiet(options))
    state = loaded.state()
    print(_row(name.ljust(width), loaded, state))
    if options.print_nodes is not None:
        print(node_table(state, state.everyone(), options.print_nodes, loaded.alias_of), end="")
    sys.stdout.flush()
    write_state(f"{options.output_directory}/{name.replace('/', '_')}.data", reported, [master])
    return True


def _quiet(options: "Options") -> "Options":
    """Options that change nothing of what was read; doubts about the data are for those who use the file."""
    from ganeti.tools.htools.command_line.options import Options

    plain = Options()
    plain.verbosity, plain.static_node_memory_mib = 0, options.static_node_memory_mib
    return plain


def _row(name: str, loaded: "Loaded", state: "ClusterState") -> str:
    nodes, everyone = loaded.cluster.nodes, state.everyone()
    bad = standing.bad_nodes(state, everyone)
    memory, disk_mib = sum(node.total_memory_mib for node in nodes), sum(node.total_disk_mib for node in nodes)
    free_disk_mib = sum(node.free_disk_mib for node in nodes)
    return (
        f"{name} {len(nodes):5d} {len(loaded.cluster.instances):5d}"
        f" {len(bad):5d} {standing.instances_on(state, bad):5d}"
        f" {fixed(memory, 0):>6} {sum(node.free_memory_mib for node in nodes):6d}"
        f" {fixed(disk_mib / _MIB_PER_GIB, 0):>6} {free_disk_mib // _MIB_PER_GIB:6d}"
        f" {fixed(standing.score(state, everyone), 8)}"
    )


def _from_server(name: str, options: "Options") -> "Records":
    from ganeti.tools.htools.loading import rapi

    return rapi.fetch(name)


def _from_master(name: str, options: "Options") -> "Records":
    from ganeti.tools.htools.command_line.option_values import luxi_socket
    from ganeti.tools.htools.loading import luxi

    return luxi.fetch(options.luxi or luxi_socket())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hscan", arguments, scan_clusters, takes_arguments=True)
