"""Push and pull consumers: group membership, pulls, delivery, offsets."""
