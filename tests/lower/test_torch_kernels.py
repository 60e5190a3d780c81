"""What kernels of lowered programs give where they have several ways."""

import itertools
import math

import pytest
from lowering_samples import DEVICE

from distir.lower.templates import functions

torch = pytest.importorskip("torch")

KERNELS = {"torch": torch, "aten": torch.ops.aten, "F": torch.nn.functional, "math": math}
exec(functions(["adam", "attention_in_blocks", "attention_gradient", "rms_norm_gradient"]), KERNELS)


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


@pytest.mark.parametrize(("q_heads", "kv_heads"), [(None, None), (4, 2)])
@pytest.mark.parametrize("window", [None, 3])
def test_on_a_gpu_attention_is_torchs_own(monkeypatch, q_heads, kv_heads, window):
    """With tensors without data: what it gives is compared on a GPU (`make test-gpu`)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    called = []
    for name in ("flash_attention", "flash_gradient"):
        own = KERNELS[name]
        monkeypatch.setitem(KERNELS, name, lambda *a, own=own, name=name: (called.append(name), own(*a))[1])
    with FakeTensorMode():
        many, few = ((2, 5, 32), (2, 5, 16)) if q_heads else ((2, 4, 5, 8), (2, 2, 5, 8))
        q, dy = (torch.empty(many, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        k, v = (torch.empty(few, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        seen = q_heads, kv_heads, True, window, None, 0.0, None
        y, lse = KERNELS["attention_in_blocks"](q, k, v, None, None, None, *seen)
        found = KERNELS["attention_gradient"](dy, q, k, v, y, lse, None, None, *seen)
    assert called == ["flash_attention", "flash_gradient"]
    assert (y.shape, lse.shape, lse.dtype) == (q.shape, (2, 4, 5), torch.float32)
    assert [x.shape for x in found] == [q.shape, k.shape, v.shape]


def test_on_a_gpu_the_gradient_of_a_norm_is_torchs_own():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, dy = (torch.empty(2, 5, 16, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        scale = torch.empty(16, dtype=torch.bfloat16, device="cuda")
        dx, dscale = KERNELS["rms_norm_gradient"](dy, x, scale, 2, 1e-5)
    assert (dx.shape, dscale.shape, dx.dtype) == (x.shape, scale.shape, x.dtype)
