"""What a visitor of the playground waits for: the first hint, cold and warm; from a key to its hint at 100 lines.

Run it as a script, after `make playground`. It needs node and chromium, and says so where they are missing. CPU time of
all of the browser's processes; beside it time by the clock, which says as much about what else the machine is doing.
Nothing is asserted: times depend on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLAYGROUND = ROOT / "vscode-extension/playground"


def main() -> None:
    """Measure the site that was built last."""
    node = shutil.which("node")
    if node is None or not (PLAYGROUND / "node_modules").exists() or not (ROOT / "build/playground/sw.js").exists():
        print("skipped: needs node and the site (make playground)")
        return
    done = subprocess.run([node, "test/measure.mjs"], cwd=PLAYGROUND, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: {done.stderr.strip()[-300:]}")
        return
    found = json.loads(done.stdout)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in ("cold", "warm"):
        print(f"{name + ' to the first hint':24} {found[name]['cpu_ms']:6} ms CPU {found[name]['ms']:6} ms")
    keys = found["key_to_hint"]
    label = f"key to hint, {keys['lines']} lines"
    print(f"{label:24} {keys['cpu_ms_each']:6} ms CPU {keys['median_ms']:6} ms (worst {keys['worst_ms']} ms)")


if __name__ == "__main__":
    sys.exit(main())
