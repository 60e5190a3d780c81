"""Fuzzing for as long as one likes: `make fuzz MINUTES=10`, or `python tests/hardening/fuzz.py text --minutes 10`.

With atheris (`pip install atheris`) inputs are chosen by the code that they reach; without it, by chance alone. What
fails is written to `tests/hardening/corpus/TARGET`, where `pytest tests/hardening` replays it: one input for each place
that fails. A summary with counts is printed, and the exit code is 1 if anything failed. Inputs that reach new code go
to `build/fuzz/TARGET`, from which the next run goes on.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

LIMIT_S = 1.0
"""CPU seconds that an input of at most 10 kB may take."""

PATIENCE_S = 5.0
"""CPU seconds after which it is given up."""

MEMORY_BYTES = 6 << 30
"""What the process may hold; a hostile input must not need more."""


class Hang(BaseException):
    """An input took too long. No Exception, so that nothing on the way takes it for a refusal."""


class Watch:
    """Calls a target, and keeps what fails: one input for each place."""

    def __init__(self, target, function, folder):
        self.target, self.function, self.folder = target, function, folder
        self.inputs = self.slow = 0
        self.failures = {}
        self.slowest_s = 0.0
        self.started = time.process_time()
        signal.signal(signal.SIGVTALRM, self._ring)

    def _ring(self, number, frame):
        raise Hang

    def __call__(self, data):
        self.inputs += 1
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
        try:
            self.function(data)
        except (Exception, Hang) as error:
            self._keep(data, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        taken = time.process_time() - begun
        self.slowest_s = max(self.slowest_s, taken)
        if taken > LIMIT_S and self.inputs > 50:  # the first ones load what is loaded late
            self.slow += 1
            self._keep(data, Hang(f"{taken:.1f} s"))

    def _keep(self, data, error):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/fuzz.py" not in f.filename]
        own = [f for f in frames if "/distir/" in f.filename] or frames
        place = f"{own[-1].filename.rpartition('/distir/')[2]}:{own[-1].name}" if own else "slow"
        kind = f"{type(error).__name__} at {place}"
        if isinstance(error, AssertionError):
            kind += f": {error}"[:100]
        if kind in self.failures:
            self.failures[kind] += 1
            return
        self.failures[kind] = 1
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(data).hexdigest()[:12]
        (self.folder / name).write_bytes(data)
        print(f"{self.target}: {kind}\n  input {self.folder / name}", file=sys.stderr)
        traceback.print_exception(error, limit=-6, file=sys.stderr)

    def summary(self):
        return {
            "target": self.target,
            "inputs": self.inputs,
            "cpu_s": round(time.process_time() - self.started, 1),
            "slowest_s": round(self.slowest_s, 2),
            "over_1_s": self.slow,
            "failures": self.failures,
        }


def by_chance(watch, others, mutate, seconds):
    """Mutants of the seeds, and mutants of mutants."""
    until = time.process_time() + seconds
    dice, pool = random.Random(time.time_ns()), list(others)
    while time.process_time() < until:
        data = mutate(dice.choice(pool))
        watch(data)
        if dice.random() < 0.01:
            pool[dice.randrange(len(others)) :] = [*pool[: len(others)], data][-500:]


def guided(watch, others, mutate, seconds, folder):
    """By coverage. Half of the mutants are ours, half atheris's own. Does not return: libFuzzer ends the process."""
    import atheris

    folder.mkdir(parents=True, exist_ok=True)
    for data in others:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    dice = random.Random(time.time_ns())

    def custom(data, largest, seed):
        return atheris.Mutate(data, largest) if dice.random() < 0.3 else mutate(data)[:largest]

    until = time.process_time() + seconds

    def one(data):
        watch(data)
        if time.process_time() > until:
            end(watch)

    options = ["-max_len=10000", "-timeout=600", "-rss_limit_mb=0", "-verbosity=0", "-print_final_stats=0", str(folder)]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=custom)
    atheris.Fuzz()


def end(watch):
    """Say what was found, and end at once, from within a fuzzer too."""
    import fuzz_targets

    fuzz_targets.clean()
    print(json.dumps(watch.summary()), flush=True)
    os._exit(1 if watch.failures else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--minutes", type=float, default=1.0, help="CPU time")
    parser.add_argument("--by-chance", action="store_true", help="not by coverage, even if atheris is installed")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        atheris = None
    if atheris is None or arguments.by_chance:
        import fuzz_targets

        is_guided = False
    else:
        import numpy  # noqa: F401 - not to be measured

        with atheris.instrument_imports(include=["distir"]):
            import fuzz_targets
        is_guided = True
    from fuzz_seeds import CORPUS, seeds
    from mutations import mutator

    if arguments.target not in fuzz_targets.TARGETS:
        parser.error(f"there is no target `{arguments.target}`; there are {', '.join(fuzz_targets.TARGETS)}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    others = seeds(arguments.target)
    watch = Watch(arguments.target, fuzz_targets.TARGETS[arguments.target], CORPUS / arguments.target)
    signal.signal(signal.SIGTERM, lambda *_: end(watch))
    signal.signal(signal.SIGINT, lambda *_: end(watch))
    for data in others:
        watch(data)
    mutate = mutator(others, time.time_ns())
    if is_guided:
        build = Path(__file__).parents[2] / "build" / "fuzz" / arguments.target
        guided(watch, others, mutate, 60 * arguments.minutes, build)
    else:
        by_chance(watch, others, mutate, 60 * arguments.minutes)
    end(watch)


if __name__ == "__main__":
    main()
