# SPDX-License-Identifier: BSD-2-Clause
"""What acts where no cluster runs: init, joining, leaving, fail-over of the master, certificates."""
