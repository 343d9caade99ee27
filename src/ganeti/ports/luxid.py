# SPDX-License-Identifier: BSD-2-Clause
"""What a job may ask LuxiD: each question is declared here, with its fields and the type of its answer.

``await ctx.luxid.ask(RenewGroupState(uuid))``. A question travels as the LUXI call of its class's name, which is the
product's own (no client of 3.1 makes it), with its fields in order as the arguments. In LuxiD a method marked
``@serves(RenewGroupState)`` answers it (`calls/serving.py`).
"""

from typing import Any, Generic, Protocol, TypeVar, get_args

import msgspec

from ganeti.model.capacity import Capacity
from ganeti.model.placement_requests import PlacementRequest

Answer = TypeVar("Answer")
PATIENCE_S = 60.0
"""How long a LuxiD that is being restarted is waited for."""
Plain = dict[str, Any]
Client = tuple[int | str, str, int]
"""Who asks: job id, lock file, process id (the ClientId of 3.1)."""


class Question(msgspec.Struct, Generic[Answer], array_like=True, forbid_unknown_fields=True):
    """Base of all questions. To ask one twice must do no harm: it is asked again when LuxiD is restarted."""

    @classmethod
    def answer_type(cls) -> Any:
        """What stands in the brackets of ``Question[…]``."""
        return get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]


class LuxidPort(Protocol):
    """The one door from a job to LuxiD."""

    async def ask(self, question: Question[Answer], *, patience_s: float = PATIENCE_S) -> Answer:
        """Raises `GanetiError` where LuxiD cannot answer, or is away for *patience_s*."""
        ...


class MayContinue(Question[bool]):
    """Asked between two opcodes: does the job go on, or does something better wait for its place (S1.81)?"""

    job_id: int
    attempt: int


class CancelUnbegun(Question[list[int]]):
    """Cancel those of *jobs* that have not begun; the others go on. Gives what is canceled."""

    jobs: list[int]


class NodesWithHooks(Question[dict[str, list[str]]]):
    """Which phases of one kind of hooks have anything to run, by node (uuid).

    LuxiD keeps connections to the nodes, so it asks them with less effort than a job. A node that does not say is
    missing in the answer.
    """

    path: str
    nodes: list[str]


class RenewGroupState(Question[Plain]):
    """Forget what is known of a node group and ask its nodes; the answer is what they say (S1.54).

    A node that does not answer is no error.
    """

    uuid: str


class Placement(msgspec.Struct, frozen=True):
    """What an allocator answers; *result* has the shape of the request's type and is empty unless *success*."""

    success: bool
    info: str
    result: Any
    reasons: list[str] = []
    """A line for each node, where the built-in allocator finds no place or was asked why."""


class AnswerPlacement(Question[Placement]):
    """Ask the built-in allocator; with a client, what is chosen is reserved for that."""

    request: PlacementRequest
    client: Client | None
    why: bool


class AllocatorInput(msgspec.Struct, frozen=True):
    """What a program that is an allocator is told of the cluster, and the serial number of the reservations in it."""

    serial: int
    input: Any


class DescribeForAllocator(Question[AllocatorInput]):
    request: PlacementRequest


class KnownCapacity(Question[dict[str, Capacity]]):
    """How many more instances fit, by node group; less than all that is asked about.

    What is missing the client may have counted, and `KeepCapacity`. Unless *cached*, nothing is known.
    """

    client: Client
    questions: dict[str, Plain]
    cached: bool


class KnownIncidents(Question[list[Plain]]):
    """The incidents of nodes that are not forgotten, as they are stored, with the name of the node (S4.28)."""


class PlanMaintenance(Question[Plain]):
    """What the maintenance daemon would do now and why, what it holds back, and what it waits for."""


class KeepCapacity(Question[list[str]]):
    """What the client had counted of what was missing; the answer names the groups of which that is kept."""

    client: Client
    counted: dict[str, Capacity]
