"""Half messages: how they are stored, checked, committed and rolled back."""
