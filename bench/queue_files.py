# SPDX-License-Identifier: BSD-2-Clause
"""A queue with very many ended jobs, written with our own writer: creations, starts, delays, failures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ganeti.stores.job_files import JobFiles
from ganeti.wire.job_file import ERROR, MESSAGE, SUCCESS, JobFile, OpcodeEntry, encode, timestamp

BEGUN_S = 1_780_000_000.0
APART_S = 20.0


def fill(files: JobFiles, count: int) -> int:
    """Write *count* ended jobs, numbered from 1; gives the bytes they take."""
    files.prepare()
    written = 0
    for job_id in range(1, count + 1):
        raw = encode(_job(job_id))
        Path(files.path(job_id)).write_bytes(raw)
        written += len(raw)
    Path(files.directory, "serial").write_text(f"{count}\n")
    os.sync()
    return written


def _job(job_id: int) -> JobFile:
    now_s = BEGUN_S + APART_S * job_id
    failed = job_id % 20 == 0
    makers = (_creation, _start, _delay)
    entries = [makers[job_id % 3](job_id, now_s)] if job_id % 50 else [_start(job_id, now_s) for _ in range(5)]
    for entry in entries:
        entry.status = ERROR if failed else SUCCESS
        entry.start_timestamp = timestamp(now_s + 0.02)
        entry.exec_timestamp = timestamp(now_s + 0.03)
        entry.end_timestamp = timestamp(now_s + 2.5)
        if failed:
            entry.result = ["OpExecError", [f"Could not start instance inst{job_id}.example.com: no answer"]]
    return JobFile(
        id=job_id,
        ops=entries,
        received_timestamp=timestamp(now_s),
        start_timestamp=timestamp(now_s + 0.02),
        end_timestamp=timestamp(now_s + 2.5),
        livelock=f"/var/lib/ganeti/livelocks/job_{job_id:06d}_1",
        process_id=10_000 + job_id,
        position=[1_780_000_000, job_id],
    )


def _creation(job_id: int, now_s: float) -> OpcodeEntry:
    name = f"inst{job_id}.example.com"
    opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "mode": "create",
        "disk_template": "plain",
        "disks": [{"size": 10240}, {"size": 51200}],
        "nics": [{"mode": "bridged", "link": "br0"}],
        "os_type": "debootstrap+default",
        "beparams": {"maxmem": 4096, "minmem": 2048, "vcpus": 2},
        "hvparams": {},
        "osparams": {},
        "start": True,
        "reason": _reason("gnt-instance", "create", "instance_create", job_id, now_s),
    }
    steps = ("creating instance disks...", "adding instance to cluster config", "running the OS create scripts")
    log = [[serial, timestamp(now_s + serial / 10), MESSAGE, f"{step} {name}"] for serial, step in enumerate(steps, 1)]
    return OpcodeEntry(input=opcode, result=[f"node{job_id % 20}.example.com"], log=log)


def _start(job_id: int, now_s: float) -> OpcodeEntry:
    opcode = {
        "OP_ID": "OP_INSTANCE_STARTUP",
        "instance_name": f"inst{job_id}.example.com",
        "force": False,
        "ignore_offline_nodes": False,
        "reason": _reason("gnt-instance", "startup", "instance_startup", job_id, now_s),
    }
    return OpcodeEntry(input=opcode)


def _delay(job_id: int, now_s: float) -> OpcodeEntry:
    opcode = {"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": True, "on_nodes": []}
    return OpcodeEntry(input={**opcode, "reason": _reason("gnt-debug", "delay", "test_delay", job_id, now_s)})


def _reason(command: str, verb: str, opcode: str, job_id: int, now_s: float) -> list[list[Any]]:
    at_ns = round(now_s * 1e9)
    return [[f"gnt:client:{command}", verb, at_ns], [f"gnt:opcode:{opcode}", f"job={job_id};index=0", at_ns]]
