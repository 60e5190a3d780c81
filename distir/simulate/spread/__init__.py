"""Step times on devices and links that are slow at random (stragglers).

`lateness`: what is slow, and by how much, as distributions; `track`: a program reduced to what each draw must simulate;
`clocks`: all draws at once; `steps`: quantiles, and what each source of lateness costs.
"""
