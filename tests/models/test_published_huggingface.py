"""Published models beside those of `transformers`, from the same weights. Skipped without torch and transformers."""

import numpy as np
import pytest
from thorough import ALL

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from published_samples import BATCH, SEQUENCE, SMALL, inputs, small, state, theirs  # noqa: E402

import distir  # noqa: E402
from distir.models.catalogue import program  # noqa: E402
from distir.models.encoder import Vit  # noqa: E402
from distir.models.published import PUBLISHED  # noqa: E402


@pytest.mark.parametrize("name", PUBLISHED if ALL else SMALL)
def test_the_same_weights_give_the_same_logits(name):
    model = small(name)
    module = program(model, None if isinstance(model, Vit) else SEQUENCE, BATCH, "Float64")
    assert distir.check(module) == []
    made, given = theirs(name, model), inputs(module)
    with torch.no_grad():
        expected = made(**{key: torch.from_numpy(value) for key, value in given.items()}).logits.numpy()
    (logits,) = distir.run(module, state(module, made) | given).values()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
