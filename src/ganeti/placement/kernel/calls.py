# SPDX-License-Identifier: BSD-2-Clause
"""The compiled kernel as Python calls it; ``kernel/kernel.h`` says what each call does.

Loaded through ctypes, because it needs no headers of the interpreter and starts in a millisecond.
"""

import ctypes
import os
from array import array
from collections.abc import Sequence
from ctypes import POINTER, c_double, c_int32, c_int64, c_uint8, c_void_p

from ganeti.base.errors import ExecutionError

LIBRARY = os.path.join(os.path.dirname(__file__), "kernel.so")
VALUES = 15
METRICS = 18
COMPONENTS = 20

_Wholes = POINTER(c_int64)
_Numbers = POINTER(c_double)
_Shorts = POINTER(c_int32)
_Bytes = POINTER(c_uint8)


class StepResult(ctypes.Structure):
    """``step`` of the kernel."""

    _fields_ = [
        ("instance", c_int64),
        ("kind", c_int64),
        ("target", c_int64),
        ("primary", c_int64),
        ("secondary", c_int64),
        ("score", c_double),
    ]


_CALLS: dict[str, tuple[object, list[object]]] = {
    "kernel_new": (c_void_p, [c_int64, _Wholes, _Numbers, _Wholes, c_int64, c_int64, c_int64, c_int64]),
    "kernel_free": (None, [c_void_p]),
    "kernel_set_location": (None, [c_void_p, c_int64, c_int64]),
    "kernel_set_desired": (None, [c_void_p, c_int64, c_int64]),
    "kernel_set_domains": (None, [c_void_p, _Bytes]),
    "kernel_grow_tags": (c_int64, [c_void_p, c_int64]),
    "kernel_set_cpu_load": (None, [c_void_p, c_int64, c_double]),
    "kernel_load": (c_int64, [c_void_p, c_int64, _Wholes, _Numbers, _Shorts, c_int64, _Shorts, c_int64, _Wholes]),
    "kernel_drop": (None, [c_void_p, c_int64]),
    "kernel_renew_node": (c_int64, [c_void_p, c_int64, _Wholes, _Numbers, c_int64, _Shorts, c_int64, c_int64]),
    "kernel_add": (c_int64, [c_void_p, _Wholes, _Numbers, _Shorts, c_int64, c_int64]),
    "kernel_move": (c_int64, [c_void_p, c_int64, c_int64, c_int64]),
    "kernel_mark": (c_int64, [c_void_p]),
    "kernel_rollback": (None, [c_void_p, c_int64]),
    "kernel_settle": (None, [c_void_p]),
    "kernel_list": (c_int64, [c_void_p, c_int64, c_int64, _Shorts]),
    "kernel_fails": (c_int64, [c_void_p, c_int64]),
    "kernel_values": (None, [c_void_p, c_int64, _Wholes, _Numbers]),
    "kernel_metrics": (None, [c_void_p, c_int64, _Numbers]),
    "kernel_score": (c_double, [c_void_p, _Wholes, c_int64]),
    "kernel_components": (None, [c_void_p, _Wholes, c_int64, _Numbers]),
    "kernel_refuse_primary": (c_int64, [c_void_p, c_int64, c_int64, c_int64]),
    "kernel_refuse_secondary": (c_int64, [c_void_p, c_int64, c_int64, c_int64, c_int64]),
    "kernel_step_is_legal": (c_int64, [c_void_p, c_int64, c_int64, c_int64, c_int64]),
    "kernel_balancing": (c_void_p, [c_void_p, _Wholes, c_int64, _Bytes, c_int64]),
    "kernel_balancing_step": (c_int64, [c_void_p, POINTER(StepResult)]),
    "kernel_balancing_free": (None, [c_void_p]),
    "kernel_best_step": (c_int64, [c_void_p, _Wholes, c_int64, _Bytes, c_int64, POINTER(StepResult)]),
}


class _Library:
    """The library, loaded by the first question."""

    loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """Give the compiled kernel; raises `ExecutionError` where it was not built."""
    if _Library.loaded is None:
        try:
            found = ctypes.CDLL(LIBRARY)
        except OSError as err:
            raise ExecutionError(f"The placement kernel cannot be loaded ({err}): build it with setup/compile") from err
        for name, (result, arguments) in _CALLS.items():
            call = getattr(found, name)
            call.restype, call.argtypes = result, arguments
        _Library.loaded = found
    return _Library.loaded


def wholes(values: "Sequence[int] | array[int]") -> "ctypes.Array[c_int64]":
    """An array of 64-bit integers for a call; raises `OverflowError` for a number that does not fit."""
    own = values if isinstance(values, array) else array("q", values)
    return (c_int64 * len(own)).from_buffer(own) if len(own) else (c_int64 * 1)()


def numbers(values: "Sequence[float] | array[float]") -> "ctypes.Array[c_double]":
    """An array of floating point numbers for a call."""
    own = values if isinstance(values, array) else array("d", values)
    return (c_double * len(own)).from_buffer(own) if len(own) else (c_double * 1)()


def shorts(values: "Sequence[int] | array[int]") -> "ctypes.Array[c_int32]":
    """An array of 32-bit integers for a call."""
    own = values if isinstance(values, array) else array("i", values)
    return (c_int32 * len(own)).from_buffer(own) if len(own) else (c_int32 * 1)()


def flags(values: "Sequence[bool] | bytes") -> "ctypes.Array[c_uint8]":
    """An array of bytes for a call."""
    return (c_uint8 * max(1, len(values))).from_buffer_copy(bytes(values) or b"\0")
