"""The benchmark: `make bench`, or `python -m tests.bench [--seed N] [--large] [AREA…]`.

Each figure stands beside its goal and its aim from the specification, and beside a baseline that was measured in the
same run. A missed goal is written as missed and is no failure: nothing here is a test. Everything is made from the
seed; nothing is read from the network.

To add a figure, yield it from the `figures` of its area. To add an area, write a module with a `figures` of the type
`Area` (`measure.py`) and name it in `AREAS` (`__main__.py`).
"""
