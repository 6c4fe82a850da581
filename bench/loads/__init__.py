"""What is measured: rows, the generator that sends and pulls, and programs of clients."""
