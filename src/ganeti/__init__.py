# SPDX-License-Identifier: BSD-2-Clause
"""A cluster manager for virtual servers."""
