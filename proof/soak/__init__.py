"""The soak: mixed traffic at a steady rate for hours, and whether anything grows. Run it with `make soak`."""
