# SPDX-License-Identifier: BSD-2-Clause
"""Installing the operating system of an instance."""
