# SPDX-License-Identifier: BSD-2-Clause
"""Questions from one program to another: clients of WConfD, LuxiD and NodeD, and those that follow their streams."""
