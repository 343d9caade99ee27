# SPDX-License-Identifier: BSD-2-Clause
"""The placement tools themselves, a module each, and how they run."""
