"""What the editor offers to do to a program: repairs of what is wrong, and changes that keep its results."""
