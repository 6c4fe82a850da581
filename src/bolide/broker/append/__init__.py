"""The door to the log: every record that a broker stores is checked, rewritten and appended here."""
