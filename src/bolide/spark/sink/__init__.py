"""The live sink: rows as messages of a topic, at least once or exactly once."""
