# SPDX-License-Identifier: BSD-2-Clause
"""The spawner's program: import what all jobs need, then fork them for LuxiD (D7). Started by LuxiD, with a descriptor.

What is imported holds no thread, event loop, TLS session or database handle, so a fork is safe.
"""

import gc
import sys


def main() -> int:
    gc.disable()  # until all is imported: reading modules makes no garbage
    from ganeti.system.environment import read_environment
    from ganeti.system.logs import set_up_logs

    environment = read_environment()
    set_up_logs("jobs", environment.paths.log_dir, debug="--debug" in sys.argv)

    import ganeti.model.node_calls
    from ganeti.base.registry import import_all
    from ganeti.calls import node_sessions
    from ganeti.job import nodes as job_nodes
    from ganeti.job import rehearsal, spawner
    from ganeti.job import world as job_world
    from ganeti.node.catalogue import build_catalogue

    import_all(ganeti.model.node_calls)  # an undo log has the names of calls alone
    job_world.install(build_catalogue())
    assert job_nodes  # imported for the jobs
    job_world.warm_up()
    rehearsal.rehearse(environment)
    node_sessions.prepare(environment.paths, environment.hostname)
    spawner.serve(int(sys.argv[1]), environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
