"""Processes that stay: each runs one rank of many lowered programs, and torch is imported once for all of them.

Run as a script, this is the process that they are forks of. It reads folders' paths from standard input and hands them
on. A worker runs its part of the program in a folder, writes its results beside it and answers on standard output; it
ends with its standard input.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

MOST_CHARACTERS = 2000
"""The length to which an answer is cut: what is written at once to a pipe is not mixed with others' answers."""


class Pool:
    """`ranks` workers in one process group. A worker waits at most `timeout` seconds for another."""

    def __init__(self, ranks, folder, timeout=300):
        self.ranks, self.timeout = ranks, timeout
        self.scratch = tempfile.TemporaryDirectory()
        store = os.path.join(self.scratch.name, "store")
        words = [sys.executable, __file__, str(folder), store, str(ranks), str(timeout)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            text=True,
        )
        self.answers = Queue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.answers.put(line.strip())
        self.answers.put("all are gone")

    def run(self, folder):
        """Run a folder on all workers. Raises AssertionError where one does not come to its end."""
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        for _ in range(self.ranks):
            try:
                answer = self.answers.get(timeout=2 * self.timeout)
            except Empty:
                raise AssertionError(f"{folder} hangs") from None
            assert answer == "done", f"{folder}: {answer}"

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.scratch.cleanup()


class Ranks:
    """Up to four ranks, started when a program first needs them."""

    MOST = 4

    def __init__(self):
        self._pool = None

    def largest_error(self, module, folder):
        """Run a program on random inputs, and compare as `distir launch --verify` does.

        Gives the largest error of an element. Raises AssertionError where a result is not the reference executor's.
        """
        from lowering_samples import entry

        from distir.analysis import program, random_inputs
        from distir.cli import lowering, verifying
        from distir.lower import tensorfile
        from distir.lower.folder import lower
        from distir.syntax import print_module

        read = program.read(print_module(module))
        start = entry(read.module)
        lowered = lower([start], more={"may_idle": True})
        assert len(lowered.ranks) <= self.MOST
        lowered.write(folder)
        values = random_inputs(read.module, 0, {}, "main")
        tensorfile.write(folder / "inputs.safetensors", lowering.array_files(values, start.function))
        if self._pool is None:
            self._pool = Pool(self.MOST, folder)
        self._pool.run(folder)
        measured = {}
        for rank in range(len(lowered.ranks)):
            measured |= tensorfile.read(folder / f"results.{rank}.safetensors")
        verdicts = verifying.verdicts(read, start.function, values, measured, folder)
        assert verdicts
        assert not [verdict for verdict in verdicts if not verdict.same]
        return max(verdict.error for verdict in verdicts)

    def close(self):
        if self._pool is not None:
            self._pool.close()


def serve(folder, store, ranks, timeout):
    """Fork the workers, and hand on what is asked until nobody asks any more."""
    sys.path.insert(0, folder)
    import runtime  # of any lowered program: it is the same for all
    import torch

    torch.set_num_threads(1)
    pipes, workers = [], []
    for rank in range(ranks):
        reading, writing = os.pipe()
        worker = os.fork()
        if not worker:
            for pipe in (writing, *pipes):
                os.close(pipe)
            with os.fdopen(reading) as asked:
                work(runtime, asked, store, rank, ranks, timeout)
        os.close(reading)
        pipes.append(writing)
        workers.append(worker)
    for rank, worker in enumerate(workers):
        Thread(target=gone, args=(rank, worker), daemon=True).start()
    for line in sys.stdin:
        for pipe in pipes:
            os.write(pipe, line.encode())
    os._exit(0)


def gone(rank, worker):
    """Tell when a worker has ended."""
    status = os.waitpid(worker, 0)[1]
    answer(f"rank {rank} ended with {os.waitstatus_to_exitcode(status)}")


def backend(rank):
    """The backend of a worker, with `DISTIR_TEST_DEVICE=cuda` NCCL's, also where several ranks share a GPU.

    NCCL refuses two ranks of one machine on one GPU. Each says that it is a machine of its own, and they send through
    the loopback: slowly, but every line for GPUs runs.
    """
    if os.environ.get("DISTIR_TEST_DEVICE") != "cuda":
        return "gloo"
    import torch

    os.environ |= {"LOCAL_RANK": str(rank % torch.cuda.device_count()), "NCCL_HOSTID": f"rank {rank}"}
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    return "nccl"


def work(runtime, asked, store, rank, ranks, timeout):
    """One worker."""
    device = runtime.connect(rank, ranks, backend(rank), timeout, store)
    for line in asked:
        place = Path(line.strip())
        try:
            program = runtime.LoweredProgram(place).prepare(rank, device, timeout)
            part = program.manifest["entries"]["main"].get(str(rank))
            given = runtime.read_tensors(place / "inputs.safetensors")
            values = program.inputs("main", given) if part else []
            results = program.results("main", program.call("main", values)) if part else {}
            runtime.write_tensors(place / f"results.{rank}.safetensors", results)
            answer("done")
        except Exception as error:
            answer(f"rank {rank}: {error}")
    os._exit(0)


def answer(text):
    os.write(1, (json.dumps(text)[1:-1][:MOST_CHARACTERS] + "\n").encode())


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
