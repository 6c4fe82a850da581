"""The servers under measurement, the machine they run on, and another commit to compare with."""
