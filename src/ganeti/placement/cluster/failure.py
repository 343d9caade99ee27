# SPDX-License-Identifier: BSD-2-Clause
"""Why a node cannot take an instance: the failure modes of htools, and the sentence for one node."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class FailMode(enum.IntEnum):
    """In the order in which htools counts them; the value 0 is kept for "fits"."""

    FailMem = 1
    FailDisk = 2
    FailCPU = 3
    FailN1 = 4
    FailTags = 5
    FailMig = 6
    FailDiskCount = 7
    FailSpindles = 8
    FailInternal = 9


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first constraint that keeps an instance off a node; *sentence* names the numbers, not the node."""

    mode: FailMode
    sentence: str


def describe_counts(counts: Mapping[FailMode, int]) -> str:
    """``FailMem: 2, FailDisk: 1`` in the order of the enumeration; empty for no failures."""
    return ", ".join(f"{mode.name}: {counts[mode]}" for mode in FailMode if counts.get(mode))
