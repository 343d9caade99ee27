# SPDX-License-Identifier: BSD-2-Clause
"""How a command ends badly: a sentence for standard error and an exit status.

The texts for errors of the cluster are those of 3.1, which scripts look for (protocols, section 18).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_NO_CLUSTER = 5
EXIT_NOT_MASTER = 11
EXIT_NODE_SETUP = 12
EXIT_CONFIRMATION = 13
EXIT_UNKNOWN_FIELD = 14


class Failure(Exception):
    """The command cannot go on; *text* is for people, *status* for scripts."""

    def __init__(self, text: str, status: int = EXIT_FAILURE) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class UsageError(Failure):
    """The words on the command line are wrong.

    As in 3.1 the status is `EXIT_USAGE` for what its reader of options refuses (an unknown option, a value that is none
    of the choices, no whole number, no size), and `EXIT_FAILURE` for everything that is looked at after that.
    """


class ServerError(Failure):
    """The cluster refused or failed: *name* and *details* are the error's wire form."""

    def __init__(self, name: str, details: list[Any]) -> None:
        super().__init__(describe(name, details))
        self.name = name
        self.details = details


_PREFIXES = {
    "OpExecError": "Failure: command execution error:\n",
    "DeviceCreationError": "Failure: command execution error:\n",
    "RpcError": "Failure: command execution error:\n",
    "TagError": "Failure: invalid tag(s) given:\n",
    "TypeEnforcementError": "Parameter Error: ",
    "ParameterError": "Failure: wrong parameter: ",
    "ConfigurationError": "Corrupt configuration file: ",
    "HooksAbort": "Failure: hooks execution failed:\n",
    "HooksFailure": "Failure: hooks general failure: ",
    "JobCanceled": "Failure: the job was canceled: ",
    "OpCodeUnknown": "Failure: unknown opcode: ",
    "QueryFilterParseError": "Failure: error while parsing query filter: ",
    "UnitParseError": "Failure: ",
    "JobLost": "Failure: ",
    "JobQueueError": "Failure: ",
    "JobQueueFull": "Failure: ",
    "DeposedError": "Failure: this node is not the master any more: ",
    "LockError": "Failure: ",
    "LuxiError": "Failure: ",
    "GenericError": "Failure: ",
    "HypervisorError": "Failure: hypervisor: ",
    "BlockDeviceError": "Failure: block device: ",
    "FileStoragePathError": "Failure: ",
    "ReservationError": "Failure: ",
    "ConfigVerifyError": "Corrupt configuration: ",
    "JobFileCorrupted": "Failure: damaged job file: ",
    "CommandError": "Failure: ",
}
_DRAINED = "Failure: the job queue is marked for drain and doesn't accept new requests"


def describe(name: str, details: list[Any]) -> str:
    """Give the text 3.1 shows for an error of the class *name* with these arguments."""
    if name == "OpPrereqError" or (name == "ResolverError" and len(details) == 2):
        head = "Failure: prerequisites not met for this operation:\n"
        if len(details) == 2:
            return f"{head}error type: {details[1]}, error details:\n{details[0]}"
        return head + _joined(details)
    if name == "ResolverError":
        host = details[0] if details else "?"
        return f"Failure: can't resolve hostname '{host}'" if len(details) == 3 else f"Failure: {_joined(details)}"
    if name == "HooksAbort" and details and isinstance(details[0], list):
        return _PREFIXES[name] + "\n".join(_hook_line(entry) for entry in details[0])
    if name == "JobQueueDrainError" or (name == "GenericError" and details == ["Queue drained"]):
        return _DRAINED
    prefix = _PREFIXES.get(name, f"Failure: {name}: ")
    if name == "JobCanceled" and not details:
        return "Failure: the job was canceled"
    return prefix + _joined(details)


def _joined(details: list[Any]) -> str:
    return ", ".join(str(detail) for detail in details if not isinstance(detail, list | dict)) or "no details given"


def _hook_line(entry: Any) -> str:
    if isinstance(entry, list) and len(entry) == 3:
        node, script, output = entry
        return f"  node: {node}, script: {script}, output: {output or '(no output)'}"
    return f"  {entry}"


def from_wire(result: Any) -> ServerError:
    """Read a failure as it comes from the master daemon: ``[class name, arguments]``, or a plain sentence."""
    if isinstance(result, list) and len(result) == 2 and isinstance(result[0], str) and isinstance(result[1], list):
        return ServerError(result[0], result[1])
    return ServerError("GenericError", [str(result)])
