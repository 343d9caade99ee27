# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as placement sees it: plain and frozen, its policies, tags, and the names of what is lacking."""
