# SPDX-License-Identifier: BSD-2-Clause
"""Every error a user or a client can meet, as one tree.

    GanetiError                     GenericError             something went wrong
    ├── PrerequisiteError           OpPrereqError            refused before anything changed
    ├── ExecutionError              OpExecError              failed while acting, undone
    │   ├── NodeCallError           RpcError                 a node did not do what was asked
    │   │   ├── OtherReleaseError                            the node does not know the call, or an argument of it
    │   │   ├── NodeUnreachableError                         no answer from the node
    │   │   └── NodeTimeoutError                             no answer in time
    │   └── DeviceCreationError     DeviceCreationError      a disk could not be made
    ├── LockError                   LockError                a lock request that makes no sense, or lock not held
    │   └── LockOrderError          GenericError             locks asked for against their order
    ├── ConfigurationError          ConfigurationError       the configuration cannot be read or written
    │   └── ConfigVerifyError       ConfigVerifyError        a change would break an invariant
    ├── ReservationError            ReservationError         a name, address or port is already promised
    ├── HypervisorError             HypervisorError          the hypervisor refused or failed
    ├── BlockDeviceError            BlockDeviceError         a disk could not be opened, made or removed
    │   └── FileStoragePathError    FileStoragePathError     a path outside the allowed directories
    ├── ParameterError              ParameterError           a parameter has a wrong name or value
    │   ├── TypeEnforcementError    TypeEnforcementError     a value has the wrong type
    │   ├── UnitParseError          UnitParseError           a size or a time cannot be read
    │   └── QueryFilterParseError   QueryFilterParseError    a filter expression cannot be read
    ├── TagError                    TagError                 a malformed tag
    ├── JobQueueError               JobQueueError            the queue cannot take or change the job
    │   ├── JobQueueFull            JobQueueFull
    │   ├── JobQueueDrainError      JobQueueDrainError
    │   ├── JobLost                 JobLost                  no such job
    │   ├── JobCanceled             JobCanceled              the job was cancelled
    │   └── JobFileCorrupted        JobFileCorrupted
    ├── OpCodeUnknown               OpCodeUnknown
    ├── HooksAbort                  HooksAbort               a pre hook said no
    ├── ResolverError               ResolverError            a name has no address
    ├── DeposedError                DeposedError             another node is the master now
    ├── TransportError              LuxiError                a daemon does not answer or speaks nonsense
    └── CommandError                CommandError             a program ended with an error

The wire form of 3.1 is ``[class name, arguments]``; both directions are here.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:  # commands would start 10 ms later
    from collections.abc import Sequence
    from typing import Any, ClassVar

UNREADABLE_JSON = (ValueError, RecursionError)
"""What decoding raises for a text that is no JSON, no UTF-8 (`UnicodeDecodeError`), of another type, or nested too
deeply; `msgspec.DecodeError` alone is not all of it."""

_NO_ROOM = "make room on its file system (df and df -i show what is used up)"
_REMEDIES = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EROFS: "mend its file system and have it mounted for writing again",
}
RESOLVER_ERROR = "resolver_error"
INSUFFICIENT_RESOURCES = "insufficient_resources"
TEMPORARILY_INSUFFICIENT = "temp_insufficient_resources"
WRONG_INPUT = "wrong_input"
WRONG_STATE = "wrong_state"
UNKNOWN_ENTITY = "unknown_entity"
ALREADY_EXISTS = "already_exists"
NOT_UNIQUE = "resource_not_unique"
ENVIRONMENT_ERROR = "environment_error"

REFUSED_AT_THE_DOOR = "refused_at_the_door"
"""Detail of a node's error: whatever is asked for with this name or driver is refused, so none of it was ever done."""

INTERNAL_ERROR = "an internal error"
"""What a message calls a bug of this program; the log has its traceback."""

NO_MEMORY = "There is no memory left for a cluster of this size: give the machine more, or ask again"
"""What placement tells where the process itself can get none."""

EXIT_FAILURE = 1
EXIT_NO_CLUSTER = 5
EXIT_NOT_MASTER = 11
EXIT_NODE_SETUP = 12
EXIT_CONFIRMATION = 13
EXIT_UNKNOWN_FIELD = 14

_HTTP_BY_CODE = {
    UNKNOWN_ENTITY: 404,
    ALREADY_EXISTS: 409,
    NOT_UNIQUE: 409,
    WRONG_STATE: 409,
    WRONG_INPUT: 400,
    RESOLVER_ERROR: 400,
    INSUFFICIENT_RESOURCES: 507,
    TEMPORARILY_INSUFFICIENT: 503,
}


class GanetiError(Exception):
    """Root of the tree. The message is one sentence that also says what would be right."""

    wire_name: ClassVar[str] = "GenericError"
    exit_status: ClassVar[int] = EXIT_FAILURE
    http_status: int = 500

    def __init__(self, message: str = "", *details: Any) -> None:
        super().__init__(message, *details)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def to_wire(self) -> list[Any]:
        """Give ``[class name, arguments]``, as clients of 3.1 expect it."""
        return [self.wire_name, list(self.args)]


class PrerequisiteError(GanetiError):
    """The request was refused and nothing has changed; *code* is one of the ECODE values of 3.1."""

    wire_name = "OpPrereqError"

    def __init__(self, message: str, code: str = WRONG_INPUT) -> None:
        super().__init__(message, code)
        self.code = code
        self.http_status = _HTTP_BY_CODE.get(code, 500)


class ExecutionError(GanetiError):
    wire_name = "OpExecError"


class NodeCallError(ExecutionError):
    """A node answered a call with a failure; the message names the node."""

    wire_name = "RpcError"
    http_status = 502


class OtherReleaseError(NodeCallError):
    """The node does not know the call, or an argument of it: nothing was done, it is of another release."""


class NodeUnreachableError(NodeCallError):
    """The node could not be reached: the call may or may not have been carried out."""


class NodeTimeoutError(NodeCallError):
    """The node did not answer in time: the call may or may not have been carried out."""


class DeviceCreationError(ExecutionError):
    wire_name = "DeviceCreationError"


class LockError(GanetiError):
    wire_name = "LockError"


class LockOrderError(LockError):
    """A lock was asked for that precedes one already held; 3.1 reports this without a class of its own."""

    wire_name = "GenericError"


class ConfigurationError(GanetiError):
    wire_name = "ConfigurationError"


class ConfigVerifyError(ConfigurationError):
    """A change or a file breaks invariants of the configuration; *problems* lists all of them."""

    wire_name = "ConfigVerifyError"

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message, list(problems))
        self.problems = list(problems)


class ReservationError(GanetiError):
    wire_name = "ReservationError"
    http_status = 409


class HypervisorError(GanetiError):
    wire_name = "HypervisorError"


class BlockDeviceError(GanetiError):
    wire_name = "BlockDeviceError"


class FileStoragePathError(BlockDeviceError):
    wire_name = "FileStoragePathError"


class ParameterError(GanetiError):
    wire_name = "ParameterError"
    http_status = 400


class TypeEnforcementError(ParameterError):
    wire_name = "TypeEnforcementError"


class UnitParseError(ParameterError):
    wire_name = "UnitParseError"


class QueryFilterParseError(ParameterError):
    wire_name = "QueryFilterParseError"


class TagError(GanetiError):
    wire_name = "TagError"
    http_status = 400


class JobQueueError(GanetiError):
    wire_name = "JobQueueError"


class JobQueueFull(JobQueueError):
    wire_name = "JobQueueFull"
    http_status = 503


class JobQueueDrainError(JobQueueError):
    wire_name = "JobQueueDrainError"
    http_status = 503


class JobLost(JobQueueError):
    wire_name = "JobLost"
    http_status = 404


class JobCanceled(JobQueueError):
    wire_name = "JobCanceled"


class JobFileCorrupted(JobQueueError):
    wire_name = "JobFileCorrupted"


class OpCodeUnknown(GanetiError):
    wire_name = "OpCodeUnknown"
    http_status = 400


class HooksAbort(GanetiError):
    """A hook that may refuse an act did; *failed* has the node (empty for the own one), script and output of each.

    On the wire it is *failed* alone, as clients of 3.1 expect.
    """

    wire_name = "HooksAbort"

    def __init__(self, failed: Sequence[Sequence[str]]) -> None:
        places = [(f"node {node}, " if node else "", script, output) for node, script, output in failed]
        super().__init__(f"Hooks refused it: {'; '.join(f'{on}script {script}: {why}' for on, script, why in places)}")
        self.args = ([list(each) for each in failed],)


class ResolverError(GanetiError):
    wire_name = "ResolverError"
    http_status = 400


class DeposedError(GanetiError):
    """Another node has become the master: who acts for this one ends and leaves everything as it is."""

    wire_name = "DeposedError"
    exit_status = EXIT_NOT_MASTER
    http_status = 503


class TransportError(GanetiError):
    wire_name = "LuxiError"
    http_status = 503


class CommandError(GanetiError):
    wire_name = "CommandError"


def refusal_of_system(err: OSError) -> str:
    """What the operating system refused, of which file, and what helps, without a full stop."""
    where = f"{err.filename}: " if err.filename else ""
    remedy = _REMEDIES.get(err.errno or 0)
    return f"{where}{err.strerror or err}{f'; {remedy}' if remedy else ''}"


def _by_wire_name() -> dict[str, type[GanetiError]]:
    table: dict[str, type[GanetiError]] = {}
    pending: list[type[GanetiError]] = [GanetiError]
    while pending:
        cls = pending.pop()
        table.setdefault(cls.wire_name, cls)
        pending.extend(cls.__subclasses__())
    return table


_CLASSES = _by_wire_name()


def from_wire(data: Any) -> GanetiError:
    """Rebuild an error from ``[class name, arguments]``; anything else becomes a plain `GanetiError`."""
    if isinstance(data, list) and len(data) == 2 and isinstance(data[0], str) and isinstance(data[1], list):
        cls = _CLASSES.get(data[0], GanetiError)
        try:
            return cls(*data[1]) if data[1] else cls("")
        except (TypeError, ValueError):
            return GanetiError(": ".join(str(part) for part in data[1]))
    return GanetiError(str(data))
