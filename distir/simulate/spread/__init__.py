"""How long steps take on devices and links that are late by chance.

`lateness`: what is late, and by how much, as distributions; `track`: a program as what must be done in each draw;
`clocks`: all draws at once; `steps`: quantiles, and whose lateness costs what.
"""
