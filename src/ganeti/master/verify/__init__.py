# SPDX-License-Identifier: BSD-2-Clause
"""The checks of `gnt-cluster verify`: pure functions from what the configuration and the nodes say to findings."""
