"""Benchmarks of Windlass: one case a claim, results as files, plots and documents from the files. See
docs/benchmarks.md.
"""
