"""Administrative calls as functions on one object."""
