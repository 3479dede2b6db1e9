"""Measurements, as ratios within one run: absolute numbers say more about the machine than about the product.

What is measured and how to read it: docs/benchmarks.md.
"""
