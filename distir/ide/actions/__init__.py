"""Code actions: repairs of errors, and changes that preserve results."""
