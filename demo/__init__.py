"""The demo: a year of departures from New York through Bolide, checked to the last message. Run it with `make demo`."""
