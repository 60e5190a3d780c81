"""How well two calibrations of this machine agree, one after the other: the share of times within both uncertainties.

Run it as a script. Nothing is asserted: on a machine that is not quiet, or whose clock changes, they do not agree.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from distir.cli import main as distir
from distir.cost import calibrate
from distir.cost.calibrate.fitting import Calibration, Sample, fit


def main() -> None:
    found: list[Calibration] = []

    def kept(samples: list[Sample]) -> Calibration:
        found.append(fit(samples))
        return found[-1]

    calibrate.fit = kept  # type: ignore[assignment]
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2):
            out = str(Path(folder) / f"{number}.toml")
            distir(["calibrate", "--quick", "--rounds", "3", "--threads", "1", "-o", out])
    first, second = found
    noise = ", ".join(f"{c.noise:.1%}{' (too noisy)' if c.too_noisy else ''}" for c in found)
    passed = time.perf_counter() - begin
    print(f"{first.agrees(second):.0%} of times agree; rounds differ by {noise} in the median; {passed:.0f} s")


if __name__ == "__main__":
    main()
