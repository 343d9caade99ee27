# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster renew-crypto: secrets are made on the master, certificates and ssh keys by a job, which sends all."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.commands.bootstrap_calls import make_secrets
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_OF_JOB = ("node_certificates", "cluster_certificate", "renew_ssh_keys", "ssh_key_type", "ssh_key_bits", "verbose")
_FILES = (
    *("new_rapi_certificate", "rapi_certificate_file", "new_confd_hmac_key"),
    *("new_cluster_domain_secret", "cluster_domain_secret_file"),
    *("new_spice_certificate", "spice_certificate_file", "spice_ca_file"),
)


def renew(call: Invocation) -> int:
    files = {name: call.get(name) for name in _FILES if call.get(name)}
    asked = {name: call.get(name) for name in _OF_JOB if call.get(name)}
    opcodes: list[dict[str, Any]] = []
    if any(name != "verbose" for name in asked):
        opcodes.append({"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", **asked})
    if not files and not opcodes:
        raise Failure("Nothing is named that is to be made anew: give one of the --new options ('--help' lists them)")
    if not call.get("force"):
        confirm.require("Keys and certificates of the cluster are made anew. Continue?", "add --force")
    for opcode in opcodes:  # what the master refuses, it shall refuse before anything is written
        jobs.ask(call, {**opcode, "dry_run": True})
    if files:
        call.client.call("QueryConfigValues", ["cluster_name"])
        for path in make_secrets(files):
            out(f"{path} is new")
        opcodes.append({"OP_ID": "OP_CLUSTER_REDIST_CONF"})
    jobs.submit_or_wait(call, *opcodes)
    return 0
