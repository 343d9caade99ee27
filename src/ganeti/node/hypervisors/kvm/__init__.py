# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``kvm``: QEMU guests, driven over QMP.

`driver` is the way in. What a guest was started with is in its runtime record (`record`); the command line is a pure
function of that record (`command_line`), so that a migration target makes the same machine.
"""
