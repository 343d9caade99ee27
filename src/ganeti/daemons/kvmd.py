# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-kvmd: sees KVM guests that are shut down from inside, notes that, and frees what their QEMU holds."""

import sys
from collections.abc import Sequence

from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.user_shutdown import Follower
from ganeti.system.daemonize import Daemon, parse_options, run_daemon
from ganeti.system.directory_watch import DirectoryWatch

NAME = "ganeti-kvmd"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_daemon(NAME, parse_options(NAME, sys.argv[1:] if arguments is None else arguments), serve)


async def serve(daemon: Daemon) -> None:
    places = Places(daemon.environment.paths)
    places.prepare()
    follower = Follower(places, lambda line: daemon.log.info("%s", line))
    watch = DirectoryWatch(places.control_dir, follower.appeared, follower.look, created=True)
    follower.look()
    daemon.ready()
    await daemon.stopping.wait()
    watch.close()
    await follower.close()


if __name__ == "__main__":
    sys.exit(main())
