# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes that test the cluster itself."""
