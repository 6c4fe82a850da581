"""One plug-in of each kind, in a package of its own."""
