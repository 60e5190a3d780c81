"""What comes in from files: the one place that opens them, and the forms that several rooms read.

Knows no programs, profiles and settings. `reading` opens, `toml` parses and tells places, `safetensors` holds tensors.
"""
