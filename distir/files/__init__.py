"""Reading files: the one place that opens them, and the formats that several rooms read.

Knows no programs, profiles and settings. `reading` opens, `toml` parses with positions, `safetensors` codes tensors.
"""
