"""The reader of RocketMQ's bytes for everything that judges Bolide: it shares no code with `src`.

One module per idea: records, logs, queues, indexes, JSON bodies and tables, frames. They import the standard library
and each other only, which `tests/test_house.py` checks.
"""
