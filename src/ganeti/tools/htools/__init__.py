# SPDX-License-Identifier: BSD-2-Clause
"""The placement tools: hail, hbal, hcheck, hinfo and what they share (spec: htools).

Nothing is imported here: `--help` and `--version` must cost little more than the interpreter.
"""
