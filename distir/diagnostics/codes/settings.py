"""DIR15x: the settings file, `distir.toml`."""

from distir.diagnostics.core import code

UNREADABLE_SETTINGS = code(
    "DIR151",
    "unreadable-settings",
    """
A `distir.toml` exists but cannot be read, or is not UTF-8. It stands beside the program or in a folder above it, and
no folder further up is looked at: settings that are silently passed over would be worse than none.
""",
)

SETTINGS_SYNTAX = code(
    "DIR152",
    "settings-syntax",
    """
`distir.toml` is not valid TOML. A correct one, with everything that can be set:

```toml
hardware = "dgx-a100"          # a known profile, or the path of one, relative to this file
entry = "main"                 # the function that is simulated and run

[bind]
B = 64                         # a named dimension
axis = "[0, 1]"                # a host parameter: a literal, as text

[budget]
max_latency = "5ms"
max_memory = "32GB"

[hints]                        # what the editor shows in the text
types = true
values = true
times = true
waits = false
```
""",
)

UNKNOWN_SETTING = code(
    "DIR153",
    "unknown-setting",
    """
`distir.toml` sets something that does not exist, so it would have no effect. Often the name is misspelt, or stands in
the wrong table: a key after a `[table]` line belongs to that table, so `hardware` and `entry` come first in the file.

```toml
[budget]
max_latencey = "5ms"
```

Write `max_latency`.
""",
)

SETTING_VALUE = code(
    "DIR154",
    "setting-value",
    """
A setting has a value of the wrong kind. Times and sizes are text with a unit, switches are `true` or `false`, a
dimension is an integer, and a host parameter is a literal as text.

```toml
[budget]
max_latency = 5
```

Say five of what:

```toml
[budget]
max_latency = "5ms"
```
""",
)
