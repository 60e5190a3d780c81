"""Processes that stay: each runs one rank of many lowered programs, so that torch is imported once.

Run as a script, this is one worker. A worker reads a folder's path from standard input, runs its part of the program
there, writes its results beside it and answers on standard output; it ends with its standard input.
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


class Pool:
    """`ranks` workers in one process group. A worker waits at most `timeout` seconds for another."""

    def __init__(self, ranks, folder, timeout=300):
        self.timeout = timeout
        self.scratch = tempfile.TemporaryDirectory()
        store = os.path.join(self.scratch.name, "store")
        words = [sys.executable, __file__, str(folder), store, str(ranks), str(timeout)]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        self.workers = [
            subprocess.Popen(
                [*words, str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
                text=True,
            )
            for rank in range(ranks)
        ]
        self.answers = Queue()
        for rank, worker in enumerate(self.workers):
            Thread(target=self._listen, args=(rank, worker), daemon=True).start()

    def _listen(self, rank, worker):
        for line in worker.stdout:
            self.answers.put((rank, line.strip()))
        self.answers.put((rank, "gone"))

    def run(self, folder):
        """Run a folder on all workers. Raises AssertionError where one does not come to its end."""
        for worker in self.workers:
            worker.stdin.write(f"{folder}\n")
            worker.stdin.flush()
        for _ in self.workers:
            try:
                rank, answer = self.answers.get(timeout=2 * self.timeout)
            except Empty:
                raise AssertionError(f"{folder} hangs") from None
            assert answer == "done", f"{folder}, rank {rank}: {answer}"

    def close(self):
        for worker in self.workers:
            with contextlib.suppress(OSError):
                worker.stdin.close()
        for worker in self.workers:
            try:
                worker.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        self.scratch.cleanup()


def work(folder, store, ranks, timeout, rank):
    """One worker."""
    sys.path.insert(0, folder)
    import runtime  # of any lowered program: it is the same for all
    import torch

    torch.set_num_threads(1)
    device = runtime.connect(rank, ranks, "gloo", timeout, store)
    for line in sys.stdin:
        place = Path(line.strip())
        try:
            program = runtime.LoweredProgram(place).prepare(rank, device, timeout)
            part = program.manifest["entries"]["main"].get(str(rank))
            given = runtime.read_tensors(place / "inputs.safetensors")
            values = program.inputs("main", given) if part else []
            results = program.results("main", program.call("main", values)) if part else {}
            runtime.write_tensors(place / f"results.{rank}.safetensors", results)
            answer = "done"
        except Exception as error:
            answer = json.dumps(str(error))
        print(answer, flush=True)
    os._exit(0)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
