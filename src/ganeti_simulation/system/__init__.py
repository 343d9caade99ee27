# SPDX-License-Identifier: BSD-2-Clause
"""The simulated operating system: processes, machines, network, signals, devices."""
