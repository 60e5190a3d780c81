"""Imported models lowered: they compute what PyTorch does, and those of ONNX's own collection have all their forms."""

from pathlib import Path

import pytest
from lowering_samples import entry, lowered_program

import distir
from distir.lower import EntryPoint, lower
from distir.simulate import arguments

onnx = pytest.importorskip("onnx")
MODELS = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
QUICK = ("resnet50", "vgg19", "shufflenet", "alexnet")


@pytest.mark.parametrize("path", [p for p in MODELS if any(name in p.name for name in QUICK)], ids=lambda p: p.stem)
def test_a_model_of_onnx_is_lowered(path):
    module = distir.import_onnx(path, weights=False)
    main = module.entry()
    text = lower([EntryPoint("main", module, main, arguments(main, {}))]).files["program.py"]
    assert "F.conv2d(" in text
    compile(text, "program.py", "exec")


def network(torch):
    """A residual convolution, a transformer's layer on what it gives, and a classifier."""
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU())
            self.pool = nn.MaxPool2d(3, stride=2, padding=1)
            self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
            self.norm, self.inner, self.outer = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
            self.head = nn.Linear(8, 5)

        def forward(self, image):
            x = self.pool(self.stem(image))
            x = torch.relu(x + self.block(x))
            tokens = x.flatten(2).transpose(1, 2)
            normal = self.norm(tokens)
            shares = torch.softmax(normal @ normal.transpose(1, 2) / 8**0.5, -1)
            tokens = tokens + self.outer(nn.functional.gelu(self.inner(shares @ normal)))
            return self.head(tokens.mean(1))

    torch.manual_seed(0)
    return Network().eval()


def test_a_model_of_pytorch_gives_what_pytorch_gives(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    model, image = network(torch), torch.randn(2, 3, 16, 16)
    module = distir.import_torch(model, (image,))
    program = lowered_program([entry(module)], tmp_path)
    given = {name: torch.tensor(module.weights[name]) for name in module.weights}
    names = [p["name"] for p in program.entry("main")["params"]]
    values = [given.get(name, image) for name in names]
    assert sum(name not in given for name in names) == 1
    with torch.no_grad():
        (found,) = program.call("main", values)
        assert torch.allclose(found, model(image), atol=1e-5)
