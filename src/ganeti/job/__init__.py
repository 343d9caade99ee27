# SPDX-License-Identifier: BSD-2-Clause
"""A job process: from the fork to the last write of its file, and the ports its operations use."""
