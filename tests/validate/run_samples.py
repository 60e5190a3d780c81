"""Runs that are quick to predict."""

from dataclasses import replace

from distir.validate.runs import IN_WORDS, said_in

HEADER = (
    "id,model,hidden,layers,heads,ffn,vocab,seq,gpu,gpus,dp,tp,pp,micro_batch,global_batch,recompute,framework,"
    "status,step_time_s,peak_memory_bytes"
)


def row(id="r:1", **given):
    """A run of a small model, as a line."""
    sizes = {"model": "small", "hidden": 256, "layers": 4, "heads": 4, "ffn": 1024, "vocab": 1000, "seq": 256}
    layout = {"gpu": "a100_80gb", "gpus": 4, "dp": 2, "tp": 2, "pp": 1, "micro_batch": 1, "global_batch": 8}
    rest = {"recompute": "none", "framework": "megatron", "status": "ok", "step_time_s": 0.1, "peak_memory_bytes": ""}
    cells = {"id": id, **sizes, **layout, **rest, **given}
    return ",".join(str(cells[name]) for name in HEADER.split(","))


def text(*rows, header=HEADER):
    return "\n".join(["# source: made up", header, *rows]) + "\n"


def changed(run, **cells):
    """A run with other values of columns."""
    said = said_in({name: cells.pop(name) for name in IN_WORDS if name in cells})
    return replace(run, said=run.said.saying(**said.fields), **cells)
