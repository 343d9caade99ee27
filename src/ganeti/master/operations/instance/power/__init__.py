# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes that start and stop an instance, and the way to its console."""
