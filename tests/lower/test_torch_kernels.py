"""What kernels of lowered programs give where they have several ways."""

import itertools

import pytest
from lowering_samples import DEVICE

from distir.lower.templates import functions

torch = pytest.importorskip("torch")

KERNELS = {"torch": torch}
exec(functions(["adam"]), KERNELS)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_adam_in_place_gives_what_it_gives_anew(dtype, decoupled):
    draw = torch.Generator().manual_seed(0)

    def drawn(dtype, *shape):
        return torch.rand(*shape, generator=draw).to(DEVICE, dtype)

    moments = torch.promote_types(dtype, torch.float32)
    w, m, v = drawn(dtype, 6, 4), drawn(moments, 6, 4), drawn(moments, 6, 4)
    gradients = drawn(dtype, 6, 4), drawn(dtype, 4, 6).t()
    rates, steps = (0.1, torch.tensor(0.1, device=DEVICE)), (3, torch.tensor(3, device=DEVICE))
    for dw, lr, step, decay in itertools.product(gradients, rates, steps, (0.0, 0.1)):
        more = step, lr, 0.9, 0.99, 1e-8, decay, decoupled
        expected = KERNELS["adam"](w, dw, m, v, *more)
        given = w.clone(), m.clone(), v.clone()
        found = KERNELS["adam"](given[0], dw, *given[1:], *more, overwrite=True)
        for old, new, wanted in zip(given, found, expected, strict=True):
            assert new is old
            torch.testing.assert_close(new, wanted, rtol=8e-3 if new.dtype == torch.bfloat16 else 1e-5, atol=1e-7)
