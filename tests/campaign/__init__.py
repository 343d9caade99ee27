# SPDX-License-Identifier: BSD-2-Clause
"""A campaign of kills over live daemons: a mixed load, a killer driven by a seed, and what must hold afterwards."""
