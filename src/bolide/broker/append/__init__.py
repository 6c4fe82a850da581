"""The append path: checks, rewrites and appends every record that a broker stores."""
