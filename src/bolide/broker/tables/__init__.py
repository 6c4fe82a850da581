"""State of a broker in addition to its log: topics, groups, clients, consumer offsets, filters."""
