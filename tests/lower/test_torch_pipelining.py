"""Exported schedules in the real runtime of `torch.distributed.pipelining`, on gloo: losses and gradients as ours."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch_csv_samples import LAYERS, WAYS, pipeline, training

import distir
from distir.analysis import random_inputs
from distir.transform.pipeline import torch_csv
from distir.transform.pipeline.passes import stage_devices
from distir.transform.pipeline.recovered import recovered_order

WORLD = 4
TIMEOUT = 240


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """All jobs, run by the same processes: by way and format, what the ranks found, and our results."""
    folder = tmp_path_factory.mktemp("pipelining")
    model = training()
    inputs = dict(random_inputs(model, 0, {}))
    expected = distir.run(model, inputs)
    jobs = {}
    for number, way in enumerate(WAYS):
        order = recovered_order(pipeline(model, way)).order
        for kind in torch_csv.FORMATS if number % 3 == 0 else torch_csv.FORMATS[:1]:
            place = folder / f"{number}-{kind}"
            place.mkdir()
            (place / "order.csv").write_text(torch_csv.write(order, kind))
            np.save(place / "weights.npy", np.stack([inputs[f"w{i}"] for i in range(LAYERS)]))
            np.save(place / "inputs.npy", np.stack([inputs["h0"], inputs["target"]]))
            homes = stage_devices(order)
            job = {
                "ranks": way[1],
                "microbatches": way[2],
                "format": kind,
                "stages": len(homes),
                "homes": [[s for s, home in enumerate(homes) if home == rank] for rank in range(way[1])],
            }
            (place / "job.json").write_text(json.dumps(job))
            jobs[way, kind] = place, way[1]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    script = Path(__file__).with_name("pipelining_worker.py")
    with (folder / "log").open("w") as log:
        words = [sys.executable, os.fspath(script), os.fspath(folder), str(WORLD)]
        workers = subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            code = workers.wait(TIMEOUT)
        finally:
            if workers.poll() is None:
                os.killpg(workers.pid, signal.SIGKILL)
                workers.wait()
    assert code == 0, (folder / "log").read_text()[-4000:]
    return jobs, expected


def test_torch_finds_the_losses_and_gradients_that_we_do(ran):
    jobs, expected = ran
    assert len(jobs) > len(WAYS)
    for (way, kind), (place, ranks) in jobs.items():
        found = {}
        for rank in range(ranks):
            found |= np.load(place / f"results.{rank}.npz")
        assert found.keys() == {"loss", *map(str, range(LAYERS))}, (way, kind)
        np.testing.assert_allclose(found["loss"], expected["mean_loss"], rtol=1e-5, err_msg=f"{way} {kind}")
        for i in range(LAYERS):
            assert np.abs(expected[f"dw{i}"]).max() > 1e-6, "a gradient that could be wrong"
            np.testing.assert_allclose(
                found[str(i)], expected[f"dw{i}"], rtol=1e-4, atol=1e-7, err_msg=f"{way} {kind} {i}"
            )
