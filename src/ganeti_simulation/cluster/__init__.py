# SPDX-License-Identifier: BSD-2-Clause
"""A cluster of simulated machines, its users, and what starts its daemons."""
