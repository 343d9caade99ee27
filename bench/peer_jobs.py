# SPDX-License-Identifier: BSD-2-Clause
"""Trivial jobs on the peer, where a peer cluster is up: jobs per second, and CPU of its daemons and jobs together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from measure import peer_command, peer_daemons_cpu_s

TRIVIAL = {"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": True, "on_nodes": [], "no_locks": True}


@dataclass(frozen=True)
class PeerBulk:
    jobs_per_s: float
    cpu_ms: float


def bulk(count: int) -> PeerBulk | None:
    """Submit *count* jobs at once and wait for all; None where there is no peer."""
    if peer_command("gnt-debug") is None:
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([TRIVIAL], file)
        file.flush()
        os.chmod(file.name, 0o644)
        before_ids, before_s = set(_times()), peer_daemons_cpu_s()
        _ask("gnt-debug", "submit-job", f"--job-repeat={count}", file.name)
        cpu_ms = 1000 * (peer_daemons_cpu_s() - before_s) / count
    times = [each for job_id, each in _times().items() if job_id not in before_ids]
    if len(times) != count or any(status != "success" for status, _, _ in times):
        sys.exit("not all jobs of the peer have ended in success")
    took_s = max(end for _, _, end in times) - min(received for _, received, _ in times)
    return PeerBulk(count / took_s, cpu_ms)


def _times() -> dict[int, tuple[str, float, float]]:
    """Status, time of arrival and time of end of each job."""
    text = _ask("gnt-job", "list", "--no-headers", "--separator=|", "-o", "id,status,received_ts,end_ts")
    rows = [line.split("|") for line in text.splitlines()]
    return {int(row[0]): (row[1].strip(), _seconds(row[2]), _seconds(row[3])) for row in rows}


def _seconds(text: str) -> float:
    """A time as `gnt-job list` shows it: [seconds, microseconds], or a date."""
    if text.strip().startswith("["):
        whole, microseconds = json.loads(text)
        return float(whole) + float(microseconds) / 1e6
    done = subprocess.run(["date", "-d", text.strip(), "+%s.%N"], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _ask(*command: str) -> str:
    done = subprocess.run(
        peer_command(*command) or [], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} of the peer ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
