"""Output, input, progress and the texts that several commands read: a command's side of the terminal."""
