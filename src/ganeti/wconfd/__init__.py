# SPDX-License-Identifier: BSD-2-Clause
"""WConfD: commits, locks, promises, publication, and the copies at the other master candidates."""
