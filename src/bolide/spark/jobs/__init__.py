"""Jobs over topics, archives and stores: each is a command of `bolide pipeline` and a function of this package."""
