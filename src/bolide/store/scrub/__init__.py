"""The scrub of a running store: reads the files at a limited rate, and reports damage."""
