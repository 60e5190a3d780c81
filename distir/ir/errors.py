"""What users can catch: every error of DistIR is one."""


class DistirError(Exception):
    """Something that a user gave cannot be read, checked or carried out; the message says what, where and why."""
