# SPDX-License-Identifier: BSD-2-Clause
"""Balancing a group, what a plan costs, rolling reboots and squeezing."""
