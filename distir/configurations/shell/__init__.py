"""The language of launch scripts, as much of it as decides which arguments a program gets. Nothing is run.

`words`: quotes, variables, arithmetic; `conditions`: whether a condition holds; `script`: statements, branches, loops,
functions, and the commands that they amount to.
"""
