# SPDX-License-Identifier: BSD-2-Clause
"""The job queue at work: files, processes, locks and signals of jobs, by the decisions of `master/queue`."""
