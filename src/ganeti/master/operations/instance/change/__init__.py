# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes that change an instance."""
