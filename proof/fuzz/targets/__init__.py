"""The targets, in a file per kind of input. `proof.fuzz.registry` lists them all."""
