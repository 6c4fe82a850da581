"""Jobs over topics, archives and stores: each a verb of `bolide pipeline`, and a function of this package."""
