# SPDX-License-Identifier: BSD-2-Clause
"""`node-cleanup`: makes a machine that was a node forget its cluster, and keeps a copy (command line, section 3)."""

import argparse
import asyncio
import os
import sys
import tarfile
import time
from collections.abc import Sequence

from ganeti.base.errors import GanetiError
from ganeti.bootstrap.attempt import Attempt, settle_former
from ganeti.bootstrap.leave import forget_cluster
from ganeti.bootstrap.machine import Machine
from ganeti.noded.master_ending import give_up_address
from ganeti.tools.joining import this_machine

NAME = "node-cleanup"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="Make this machine forget the cluster it was a node of.")
    parser.add_argument("--yes-do-it", action="store_true", help="confirm that this is really wanted")
    parser.add_argument("--no-backup", action="store_true", help="keep no copy of what is removed")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is being done")
    options = parser.parse_args(arguments)
    if not options.yes_do_it:
        print(f"{NAME}: this removes the node's keys and configuration: confirm with --yes-do-it", file=sys.stderr)
        return 1
    machine = this_machine(NAME, loud=bool(options.debug or options.verbose))
    try:
        clean_up(machine, backup=not options.no_backup)
    except (GanetiError, OSError) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    return 0


def clean_up(machine: Machine, *, backup: bool) -> None:
    """Stop the daemons, keep a copy of the data directory beside it, then empty it."""
    settle_former(machine)
    machine.daemon_util("stop-all")
    asyncio.run(give_up_address(machine.paths))
    data_dir = machine.paths.data_dir
    if backup and os.path.isdir(data_dir) and os.listdir(data_dir):
        copy = f"{data_dir}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            archive.add(data_dir, arcname=os.path.basename(data_dir))
        machine.say(f"a copy of {data_dir} is in {copy}")
    attempt = Attempt.left_behind(machine)
    if attempt is not None:
        attempt.take_back(daemons=False)
        machine.say("what an interrupted joining had changed is as it was before")
    for name in forget_cluster(machine.paths):
        machine.say(f"removed {name}")
