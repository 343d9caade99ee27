# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes that bring an instance to another node or node group."""
