"""Traces as Kineto writes them of a GPU, with times that are known: a builder of events."""

import gzip
import json


class Rank:
    """The events of one rank. Times in microseconds; ids count up, as Kineto's do."""

    def __init__(self, rank, world, start=1_000_000.0):
        self.events, self.rank, self.world, self.start, self.ids = [], rank, world, start, 0

    def add(self, category, name, thread, at, duration, **arguments):
        own = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread}
        self.events.append(own | {"ts": self.start + at, "dur": duration, "args": arguments})

    def step(self, number, at, duration):
        self.add("user_annotation", f"ProfilerStep#{number}", 1, at, duration, **{"External id": 0})

    def op(self, name, at, duration, dims=(), dtype="c10::BFloat16", thread=1, **arguments):
        """An op on a thread; returns its id."""
        self.ids += 1
        shaped = {"Input Dims": [list(d) for d in dims], "Input type": [dtype] * len(dims)} if dims else {}
        self.add("cpu_op", name, thread, at, duration, **{"External id": self.ids}, **shaped, **arguments)
        return self.ids

    def kernel(self, name, launched, at, duration, stream=7, external=None, thread=1, **arguments):
        """A kernel and its launch; without `external`, only the time of the launch says which op it belongs to."""
        self.ids += 1
        linked = {"correlation": self.ids} | ({} if external is None else {"External id": external})
        self.add("cuda_runtime", "cudaLaunchKernel", thread, launched, 3, **linked)
        self.add("kernel", name, stream, at, duration, device=0, stream=stream, **linked, **arguments)

    def nccl(self, collective, launched, at, duration, elements, ranks, received=None, dtype="BFloat16", stream=20):
        """A kernel of NCCL, with what torch says of it."""
        stated = {
            "Collective name": collective,
            "In msg nelems": elements,
            "Out msg nelems": elements if received is None else received,
            "Group size": len(ranks),
            "dtype": dtype,
            "Process Group Ranks": str(list(ranks)),
        }
        self.kernel(
            f"ncclDevKernel_{collective}_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            launched,
            at,
            duration,
            stream,
            **stated,
        )

    def document(self):
        about = {"backend": "nccl", "rank": self.rank, "world_size": self.world}
        return {"schemaVersion": 1, "distributedInfo": about, "displayTimeUnit": "ms", "traceEvents": self.events}

    def write(self, path):
        data = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


def two_ranks(folder, steps=1, **options):
    """Two ranks that each multiply, apply Relu and sum the result over both, which ends when rank 1 has come too.

    A step is 1000 us: the product 300 us, 100 us later Relu 100 us, and 50 us into that the all-reduce on a stream of
    its own, 400 us on rank 0 of which it waits 200 us for rank 1.
    """
    for rank in (0, 1):
        own = Rank(rank, 2)
        for number in range(steps):
            t = 1000.0 * number
            own.step(number, t, 1000.0)
            own.op("aten::matmul", t + 10, 30, [(1024, 1024), (1024, 1024)])
            product = own.op("aten::mm", t + 12, 20, [(1024, 1024), (1024, 1024)])
            own.kernel("nvjet_tst_128x256", t + 20, t + 50, 300, external=product)
            own.op("aten::relu", t + 50, 20, [(1024, 1024)])
            own.kernel("vectorized_elementwise_kernel", t + 60, t + 450, 100)
            own.op("c10d::allreduce_", t + 80, 30)
            own.op("record_param_comms", t + 85, 10)
            own.nccl("allreduce", t + 90, t + 500 + 200 * rank, 400 - 200 * rank, 1 << 20, (0, 1))
        own.write(folder / f"rank{rank}.json.gz")
    return folder


PROGRAM = """
func @main(
  %x_1: Tensor[BFloat16, (1024, 1024), 1], %w_1: Tensor[BFloat16, (1024, 1024), 1],
  %x_2: Tensor[BFloat16, (1024, 1024), 2], %w_2: Tensor[BFloat16, (1024, 1024), 2]
) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %r_1 = Relu(%h_1)
  %r_2 = Relu(%h_2)
  %y_1, %y_2 = MPIAllreduce(%r_1, %r_2)
  return %y_1, %y_2
}
"""
"""The program that they run."""
