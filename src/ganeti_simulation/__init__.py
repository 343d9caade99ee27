# SPDX-License-Identifier: BSD-2-Clause
"""A whole cluster in one process: production programs on simulated machines, with virtual time and a seed."""
