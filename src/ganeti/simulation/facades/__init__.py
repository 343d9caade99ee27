# SPDX-License-Identifier: BSD-2-Clause
"""The modules through which production code meets the operating system, for simulated processes.

Each stands in for one module of the standard library, with what the product uses of it; what it lacks raises
`AttributeError`, so nothing reaches the real machine unnoticed.
"""
