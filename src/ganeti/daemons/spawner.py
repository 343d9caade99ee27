# SPDX-License-Identifier: BSD-2-Clause
"""The spawner's program: import all that jobs need, then fork them for LuxiD (D7). Started by LuxiD, with a descriptor.

What is imported holds no thread, event loop, TLS session or database handle, so a fork is safe.
"""

import sys


def main() -> int:
    from ganeti.runtime.environment import read_environment
    from ganeti.runtime.logs import set_up_logs

    environment = read_environment()
    set_up_logs("jobs", environment.paths.log_dir, debug="--debug" in sys.argv)

    from ganeti.daemons.catalogue import build_catalogue
    from ganeti.master import operations
    from ganeti.runtime import job_nodes, job_world, node_sessions, spawner

    operations.load()
    job_world.install(build_catalogue())
    assert job_nodes  # imported for the jobs
    job_world.warm_up()
    node_sessions.prepare(environment.paths)
    spawner.serve(int(sys.argv[1]), environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
