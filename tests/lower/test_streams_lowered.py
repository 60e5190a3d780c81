"""Statements on streams, in torch: what runs beside what follows, and where it is waited for."""

import contextlib
import re

import pytest
from lowering_samples import entry, load_runtime

from distir.lower.folder import lower
from distir.ops import canonical
from distir.syntax import parse

torch = pytest.importorskip("torch")

PROGRAM = """\
func @fused(%x, %y) kernel {
  %a = Add(%x, %y)
  %b = Relu(%a)
  return %b
}

func @reduced(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float32, (4, 4), 2]) {
  %a, %b = MPIAllreduce(%x, %y) on reduce
  return %a, %b
}

func @main(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float32, (4, 4), 2]) {
  %g = Exp(%x)
  %h = Exp(%y)
  %a, %b = @reduced(%g, %h)
  %s = Send[device = 2](%g) on copy
  %p, %q = MPIAllgather[axis = 1](%x, %y) on copy
  %c = Relu(%x)
  %d = @fused(%c, %a) on side
  %u, %w = Split[axis = 0, num_outputs = 2](%c) on side
  %e = Add(%d, %c)
  %f = Mul(%s, %b)
  return %e, %f, %p, %q, %u, %w
}
"""


def module_of(text):
    syntax = parse(text, spelling=canonical)
    assert not syntax.diagnostics
    return syntax.module


def body_of(text, function):
    """The lines of a function of a lowered program, without what they stand for."""
    program = lower([entry(module_of(text))]).files["program.py"]
    found = re.search(rf"def {function}\(.*?\):\n(.*?)(?:\n\n|\Z)", program, re.DOTALL)
    assert found is not None, program
    return [line.partition("  # ")[0].strip() for line in found[1].splitlines()]


def test_what_is_aside_begins_at_its_statement_and_is_waited_for_before_its_first_use():
    lines = body_of(PROGRAM, "f_main_rank_0")
    assert lines.index('on("copy", (made,), lambda g: send(g, 1), g)') < lines.index("c = torch.relu(x)")
    assert 'd = on("side", (made_2,), lambda c, a: f_fused(c, a), c, a)' in lines
    assert lines.index("d = wait(d)") + 1 == lines.index("e = d + c")
    assert "a = wait(a)" not in lines  # another stream uses it, and waits itself
    assert lines[-2] == "settle()"
    begins = ["made = here()", 'a = on("reduce", (made,), lambda x: all_reduce(x, GROUP[0, 1]), x)']
    assert body_of(PROGRAM, "f_reduced_rank_0")[:2] == begins


def test_a_program_without_streams_has_nothing_of_them():
    text = re.sub(r" on \w+", "", PROGRAM)
    assert not [line for line in body_of(text, "f_main_rank_0") if re.search(r"\b(on|here|wait|settle)\(", line)]


def test_what_another_stream_may_still_read_is_not_overwritten():
    text = """\
func @main(%x: Tensor[Float32, (4,), 1], %y: Tensor[Float32, (4,), 2]) {{
  %g = Exp(%x)
  %s = Send[device = 2](%g) {}
  %a, %b = MPIAllreduce(%g, %y)
  return %a, %b, %s
}}
"""
    assert "a = all_reduce(g, GROUP[0, 1], overwrite=True)" in body_of(text.format(""), "f_main_rank_0")
    assert "a = all_reduce(g, GROUP[0, 1])" in body_of(text.format("on copy"), "f_main_rank_0")


class Streams:
    """CUDA streams that only note what they are asked."""

    def __init__(self):
        self.log, self.current, self.made = [], "compute", {}

    def stream(self, name):
        return self.made.setdefault(name, OneStream(self, name))

    @contextlib.contextmanager
    def inside(self, stream):
        before, self.current = self.current, stream.name
        yield
        self.current = before


class OneStream:
    def __init__(self, streams, name):
        self.streams, self.name = streams, name

    def wait_stream(self, other):
        self.streams.log.append((self.name, "waits for all of", other.name))

    def wait_event(self, event):
        self.streams.log.append((self.name, "waits for", event))

    def record_event(self):
        event = f"{self.name} {len(self.streams.log)}"
        self.streams.log.append((self.name, "notes", event))
        return event


@pytest.fixture
def one_of_two():
    """A process group of two ranks, of which one is here and the other answers nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_on_a_gpu_every_line_runs_on_the_stream_that_its_statement_names(tmp_path, monkeypatch, one_of_two):
    """With tensors without data, and a process group that sends nothing: no GPU is needed."""
    streams, used, results = run_on_streams(PROGRAM, ["reduce", "copy", "side"], tmp_path, monkeypatch, one_of_two)
    assert [tuple(r.shape) for r in results] == [(4, 4), (4, 8), (2, 4), (2, 4)]
    begun = [who for who, what, event in streams.log if what == "waits for" and event.startswith("compute")]
    assert begun == ["reduce", "copy", "copy", "side", "side"]
    (summed, *_) = [event for who, what, event in streams.log if (who, what) == ("reduce", "notes")]
    assert ("side", "waits for", summed) in streams.log  # the sum, on the stream that uses it
    last = [entry for entry in streams.log if entry[0] == "compute"][-3:]
    assert last == [("compute", "waits for all of", name) for name in ("reduce", "copy", "side")]
    assert ((4, 4), "reduce") in used
    assert ((4, 4), "compute") in used


def run_on_streams(text, names, tmp_path, monkeypatch, group):
    """A rank's program as on a GPU: what its streams are asked, and what runs; what they use; its results."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    lower([entry(module_of(text))]).write(tmp_path)
    program = load_runtime(tmp_path).LoweredProgram(tmp_path)
    streams, used, names = Streams(), [], iter(names)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: streams.stream(next(names)))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: streams.stream(streams.current))
    monkeypatch.setattr(torch.cuda, "stream", streams.inside)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda x, stream: used.append((tuple(x.shape), stream.name)))
    program.module.DEVICE = torch.device("cuda", 0)
    program.module.GROUP[0, 1] = group

    class Runs(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            streams.log.append((streams.current, "runs", func.name().partition("::")[2].partition(".")[0]))
            return func(*args, **(kwargs or {}))

    with FakeTensorMode():
        x = torch.empty(4, 4, device="cuda")
        with Runs():
            results = program.module.f_main_rank_0(x)
    return streams, used, results


def waits(streams, who):
    """What `compute` had run when each event was recorded that a stream waits for, and when it began to wait."""
    found = []
    for at, (stream, what, event) in enumerate(streams.log):
        if (stream, what) == (who, "waits for") and event.startswith("compute"):
            until = streams.log.index(("compute", "notes", event))
            done = [[op for s, w, op in streams.log[:end] if (s, w) == ("compute", "runs")] for end in (until, at)]
            found.append(done)
    return found


SIGNATURE = "func @main(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float32, (4, 4), 2])"


def test_on_a_gpu_a_stream_waits_for_what_its_operands_need_and_no_longer(tmp_path, monkeypatch, one_of_two):
    text = f"""\
{SIGNATURE} {{
  %g = Exp(%x)
  %c = Relu(%g)
  %t = MakeTuple(%g, %x)
  %d = Tanh(%c)
  %h, %z = UnpackTuple(%t)
  %s = Send[device = 2](%h) on copy
  %e = Neg(%d)
  %u = Send[device = 2](%c) on copy
  return %e, %s, %u
}}
"""
    streams, *_ = run_on_streams(text, ["copy"], tmp_path, monkeypatch, one_of_two)
    first, *between, last = waits(streams, "copy")
    assert [first, last] == [[["exp"], ["exp", "relu", "tanh"]], [["exp", "relu"], ["exp", "relu", "tanh", "neg"]]]
    assert between == [[[], ["exp", "relu", "tanh"]]]  # the other item of the tuple: a parameter


def test_on_a_gpu_a_stream_overwrites_nothing_that_is_still_computed_with(tmp_path, monkeypatch, one_of_two):
    text = f"""\
{SIGNATURE} {{
  %g = Exp(%x)
  %c = Relu(%g)
  %d = Tanh(%c)
  %a, %b = MPIAllreduce(%g, %y) on reduce
  %e = Add(%a, %d)
  return %e, %b
}}
"""
    assert "overwrite=True" in "".join(body_of(text, "f_main_rank_0"))
    streams, *_ = run_on_streams(text, ["reduce"], tmp_path, monkeypatch, one_of_two)
    assert [until for until, _ in waits(streams, "reduce")] == [["exp"], ["exp", "relu"]]


def test_on_a_gpu_what_one_stream_makes_and_two_use_is_waited_for_by_its_own_event(tmp_path, monkeypatch, one_of_two):
    text = f"""\
{SIGNATURE} {{
  %a, %b = MPIAllreduce(%x, %y) on reduce
  %c = Relu(%a)
  %d = Tanh(%c)
  %s = Send[device = 2](%a) on copy
  return %d, %s
}}
"""
    streams, *_ = run_on_streams(text, ["reduce", "copy"], tmp_path, monkeypatch, one_of_two)
    (summed, *_) = [event for who, what, event in streams.log if (who, what) == ("reduce", "notes")]
    assert [event for who, what, event in streams.log if (who, what) == ("copy", "waits for")] == [summed]


def test_a_bucket_is_waited_for_where_an_item_is_used():
    text = f"""\
{SIGNATURE} {{
  %g = Exp(%x)
  %h = Exp(%y)
  %t = MakeTuple(%g, %x)
  %u = MakeTuple(%h, %y)
  %v, %w = MPIAllreduce(%t, %u) on reduce
  %a, %b = UnpackTuple(%v)
  %c = Relu(%x)
  %d = Relu(%b)
  %e = Add(%a, %c)
  %p = MakeTuple(%a, %b)
  %q = Send[device = 2](%p) on copy
  return %d, %e, %q
}}
"""
    lines = body_of(text, "f_main_rank_0")
    assert lines.index("a, b = parts(v, 2)") < lines.index("c = torch.relu(x)") < lines.index("b = wait(b)")
    assert lines.index("b = wait(b)") < lines.index("d = torch.relu(b)") < lines.index("a = wait(a)")


COLLECTIVES = """\
func @main(%x: Tensor[Float32, {shape}, 1], %y: Tensor[Float32, {shape}, 2]) {{
  %a, %b = {op}(%x, %y)
  return %a
}}
"""


@pytest.mark.parametrize(
    ("op", "shape", "copies"),
    [
        ("MPIAllgather[axis = 0]", "(4, 6)", 0),
        ("MPIAllgather[axis = 1]", "(1, 4, 6)", 0),
        ("MPIAllgather[axis = 1]", "(4, 6)", 1),
        ("MPIReduceScatter[axis = 0]", "(4, 6)", 0),
        ("MPIReduceScatter[axis = 1]", "(1, 4, 6)", 0),
        ("MPIReduceScatter[axis = -1]", "(4, 6)", 1),
        ("MPIAlltoall[split_axis = 0, concat_axis = 0]", "(4, 6)", 0),
        ("MPIAlltoall[split_axis = 1, concat_axis = 0]", "(4, 6)", 1),
        ("MPIAlltoall[split_axis = 0, concat_axis = 1]", "(4, 6)", 1),
        ("MPIAlltoall[split_axis = 2, concat_axis = 1]", "(2, 4, 6)", 2),
    ],
)
@pytest.mark.parametrize("stream", ["", " on copy"])
def test_collectives_take_one_tensor_and_copy_only_what_the_layout_needs(
    op, shape, copies, stream, tmp_path, monkeypatch, one_of_two
):
    from torch.utils._python_dispatch import TorchDispatchMode

    made, carried = [], []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.name().removeprefix("aten::").partition(".")[0]
            if name in ("clone", "cat", "stack", "copy_", "_to_copy", "index", "index_select"):
                made.append(name)
            return func(*args, **(kwargs or {}))

    text = COLLECTIVES.format(op=op, shape=shape).replace("(%x, %y)\n", f"(%x, %y){stream}\n")
    lower([entry(module_of(text))]).write(tmp_path)
    program = load_runtime(tmp_path).LoweredProgram(tmp_path)
    program.module.GROUP[0, 1] = one_of_two
    module = program.module
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
        monkeypatch.setattr(module.dist, name, noting(getattr(module.dist, name), carried))
    module.whole = lambda name: getattr(
        module.dist, {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}[name]
    )
    x = torch.ones(eval(shape))
    with Copies():
        module.f_main_rank_0(x)
    assert len(carried) == 1
    assert all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in carried[0])
    assert len(made) == copies, made


def noting(collective, carried):
    """The collective, which notes the tensors that it is given."""

    def noted(output, given, *args, **options):
        carried.append((output, given))
        return collective(output, given, *args, **options)

    return noted


def test_on_a_gpu_copies_to_the_host_and_back_run_on_their_streams_in_pinned_memory(tmp_path, monkeypatch, one_of_two):
    text = f"""\
{SIGNATURE} {{
  %g = Exp(%x)
  %h = Offload(%g) on offload
  %c = Relu(%g)
  %late = After(%c, %h)
  %d = Tanh(%late)
  %begun = After(%h, %d) on fetch
  %back = Fetch(%begun) on fetch
  %e = Neg(%d)
  %f = Add(%e, %back)
  return %f, %h
}}
"""
    pinned, empty = [], torch.empty

    def without_a_driver(*sizes, pin_memory=False, **options):
        pinned.append(bool(pin_memory))
        return empty(*sizes, **options)

    monkeypatch.setattr(torch, "empty", without_a_driver)
    streams, used, (summed, kept) = run_on_streams(text, ["offload", "fetch"], tmp_path, monkeypatch, one_of_two)
    assert (summed.device.type, kept.device.type) == ("cuda", "cpu")
    assert any(pinned)
    assert [copied for copied, *_ in waits(streams, "offload")] == [["exp"]]
    (copy,) = [event for who, what, event in streams.log if (who, what) == ("offload", "notes")]
    assert streams.log.index(("compute", "waits for", copy)) < streams.log.index(("compute", "runs", "tanh"))
    assert any(done[-1] == "tanh" for done, _ in waits(streams, "fetch"))  # not before
    assert ((4, 4), "offload") in used
