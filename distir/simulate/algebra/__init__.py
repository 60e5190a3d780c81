"""The algebra of straight-line blocks: what statements do to clocks and to memories, and how that composes.

`compose` puts blocks one after the other, `power` repeats one, `rename` moves one to other devices or memories. Clocks
and bytes are whole numbers, so however a program is cut into blocks, the result is the same to the last bit.
"""
