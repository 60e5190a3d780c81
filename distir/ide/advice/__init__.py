"""Advice: what would make a program faster or smaller, each simulated and checked, best first.

- `core.py`: a piece of advice, what it gains, and what is known of its results;
- `candidates.py`: what is tried: moves of statements, recomputation, and what the transform steps declare (`tries`);
- `search.py`: tries it within a time, and orders what helps.
"""
