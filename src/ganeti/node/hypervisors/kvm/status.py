# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's run states in the words of the interface."""

_STATES = {
    "running": "running",
    "inmigrate": "incoming",
    "postmigrate": "postmigrate",
    "finish-migrate": "paused",
    "shutdown": "shutdown",
}
RUNNING = "running"
PAUSED = "paused"
SHUTDOWN = "shutdown"
INCOMING = "incoming"
POSTMIGRATE = "postmigrate"


def state_of(run_state: str) -> str:
    """Everything else QEMU knows (prelaunch, io-error, suspended, guest-panicked, …) is a stop: ``paused``."""
    return _STATES.get(run_state, PAUSED)
