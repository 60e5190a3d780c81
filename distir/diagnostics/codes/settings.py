"""DIR15x: the settings file, `distir.toml`."""

from distir.diagnostics.core import code

UNREADABLE_SETTINGS = code(
    "DIR151",
    "unreadable-settings",
    """
A `distir.toml` beside the program or in a parent folder exists, but is unreadable or not UTF-8. DistIR does not fall
back to the settings of folders further up, which would ignore this file silently.
""",
)

SETTINGS_SYNTAX = code(
    "DIR152",
    "settings-syntax",
    """
`distir.toml` is not valid TOML. This is a valid one:

```toml
hardware = "dgx-a100"          # a known profile, or the path of one, relative to this file
entry = "main"                 # the function to simulate and run
sequential = "model.dir"       # the program that others are proved against, relative to this file

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
`distir.toml` has an unknown setting, which would have no effect. Often the name is a typo, or the setting is in the
wrong table: a key after a `[table]` line belongs to that table, so put `hardware` and `entry` first in the file.

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
A setting has a value of the wrong type. Times and sizes are strings with a unit, flags are `true` or `false`, a
dimension is an integer, and a host parameter is a string with a literal. Faults of the hardware profile that a setting
names have this code, too, in the profile and at the setting.

```toml
[budget]
max_latency = 5
```

Add the unit:

```toml
[budget]
max_latency = "5ms"
```
""",
)
