"""Injects known bugs into copies of the sources, one at a time: tests must fail, or a simulated run break a promise."""
