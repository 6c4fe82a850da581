"""The settings of a broker: a section per subject, and their composition with the rules that span several sections."""
