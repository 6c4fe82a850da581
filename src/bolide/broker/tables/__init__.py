"""What a broker remembers beside its log: topics, groups, clients, consumer offsets, filters."""
