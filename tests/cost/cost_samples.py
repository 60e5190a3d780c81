"""Machines and works for the tests of cost: a small valid profile, random ones, and a writer of TOML."""

import json

from hypothesis import strategies as st

from distir.cost import parse
from distir.ir import DTYPES
from distir.ops.resources import Communication, Work

COLLECTIVES = (
    "broadcast",
    "scatter",
    "gather",
    "allgather",
    "reduce",
    "allreduce",
    "reducescatter",
    "alltoall",
    "shift",
)
PATTERNS = ("send", *COLLECTIVES)


def small_profile():
    """Two nodes of two devices; every key in it is required."""
    link = {"startup": "10us", "latency": "2us", "bandwidth": "100GB/s"}
    return {
        "title": "two nodes of two",
        "groups": [{"kind": "gpu", "count": 4}],
        "kinds": {
            "gpu": {
                "title": "GPU",
                "memory": "10GB",
                "launch": "5us",
                "memory_bandwidth": {"peak": "1000GB/s", "achieved": "800GB/s"},
                "flops": {
                    "Float32": {"peak": "20TFLOP/s", "achieved": "18TFLOP/s"},
                    "other": {"like": "Float32"},
                },
            }
        },
        "levels": {
            "inside": {"devices": 2, "send": dict(link), "collective": dict(link)},
            "outside": {"devices": 4, "send": dict(link), "collective": dict(link)},
        },
    }


def toml(value):
    """A profile as TOML text, one top-level key per line."""
    return "".join(f"{json.dumps(key)} = {_inline(item)}\n" for key, item in value.items())


def _inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def communication(pattern, nbytes, root=None):
    return Work(communication=Communication(pattern, nbytes, root))


def seconds(hardware, pattern, nbytes, positions, root=None):
    return hardware.cost(communication(pattern, nbytes, root), tuple(positions)).seconds


durations = st.floats(0, 1e3).map(lambda us: f"{us!r}us")
bandwidths = st.floats(1e-3, 1e4).map(lambda gb: f"{gb!r}GB/s")
links = st.fixed_dictionaries(
    {"startup": durations, "latency": durations, "bandwidth": bandwidths}, optional={"uplink": bandwidths}
)


@st.composite
def levels(draw, devices):
    optional = ("low_latency", "switch", "forwarded", "hybrid")
    figures = st.fixed_dictionaries({"send": links, "collective": links}, optional=dict.fromkeys(optional, links))
    return {"devices": devices, **draw(figures)}


@st.composite
def rates(draw):
    peak = draw(st.floats(1, 1e4))
    if draw(st.booleans()):
        return {"peak": f"{peak!r}TFLOP/s", "achieved": f"{peak * draw(st.floats(0.1, 1))!r}TFLOP/s"}
    # Rates that rise with the size, but less than it.
    first, slopes = draw(st.floats(0.01, 0.1)), draw(st.lists(st.floats(0, 0.9), max_size=3))
    rate, table = peak * first, {}
    for i, slope in enumerate((0, *slopes)):
        rate = min(peak, rate * 8**slope)
        table[f"{8**i}GFLOP"] = f"{rate!r}TFLOP/s"
    return {"peak": f"{peak!r}TFLOP/s", "achieved": table}


@st.composite
def machines(draw):
    """A machine of up to three levels, of one or two kinds."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    profile = {"title": "random", "groups": [], "kinds": {}, "levels": {}}
    devices = 1
    for i, size in enumerate(sizes):
        devices *= size
        profile["levels"][f"level{i}"] = draw(levels(devices))
    for name in draw(st.sampled_from([("a",), ("a", "b")])):
        bandwidth = draw(st.floats(1, 1e4))
        profile["kinds"][name] = {
            "title": name,
            "memory": "10GB",
            "launch": draw(durations),
            "memory_bandwidth": {"peak": f"{bandwidth!r}GB/s", "achieved": f"{bandwidth / 2!r}GB/s"},
            "flops": {"Float32": draw(rates()), "Float16": draw(rates()), "other": {"like": "Float32"}},
        }
    count = devices // len(profile["kinds"])
    rest = devices - count * (len(profile["kinds"]) - 1)
    for i, name in enumerate(profile["kinds"]):
        profile["groups"].append({"kind": name, "count": rest if i == 0 else count})
    return parse(toml(profile))


sizes = st.one_of(st.integers(0, 10**12), st.integers(0, 40).map(lambda n: 2**n))
works = st.builds(
    Work, flops=st.integers(0, 10**18), bytes=st.integers(0, 10**13), dtype=st.sampled_from([None, *DTYPES.values()])
)


@st.composite
def groups(draw, hardware, least=1):
    """Distinct positions of a machine."""
    positions = st.integers(0, hardware.devices - 1)
    return tuple(draw(st.lists(positions, min_size=least, max_size=12, unique=True)))
