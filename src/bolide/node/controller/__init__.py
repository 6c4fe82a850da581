"""A running controller: its port, its clock, and the engine that stores its decisions."""
