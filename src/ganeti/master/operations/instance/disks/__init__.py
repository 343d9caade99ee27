# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes about the disks of an instance, and the steps that they share."""
