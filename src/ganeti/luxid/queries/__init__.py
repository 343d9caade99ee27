# SPDX-License-Identifier: BSD-2-Clause
"""Where the rows of queries come from: configuration, queue, locks, nodes, and the cache of their state."""
