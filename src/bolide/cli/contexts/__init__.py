"""Which cluster a command calls: contexts, the options that name it, and the call itself."""
