"""One codec of safetensors: what it writes it reads, and other readers and writers of the format agree with it."""

import io
import json
import re

import numpy as np
import pytest

from distir.files import safetensors
from distir.files.safetensors import SPELLED, FormatError, Tensor
from distir.ir import DTYPES
from distir.lower import templates, tensorfile
from distir.ops import numpy_dtype
from distir.ops.numeric import from_bytes, to_bytes

KEPT = [DTYPES[name] for name in SPELLED]


@pytest.mark.parametrize("dtype", KEPT, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
def test_arrays_come_back(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(numpy_dtype(dtype))
    tensorfile.write(tmp_path / "a.safetensors", {"first": array, "second": array})
    found = tensorfile.read(tmp_path / "a.safetensors")
    assert list(found) == ["first", "second"]
    for again in found.values():
        assert again.dtype == array.dtype
        assert again.tobytes() == array.tobytes()
        assert again.shape == shape


def test_the_package_of_that_name_reads_what_is_written(tmp_path):
    theirs = pytest.importorskip("safetensors.numpy")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensorfile.write(tmp_path / "a.safetensors", {"w": array})
    np.testing.assert_array_equal(theirs.load_file(tmp_path / "a.safetensors")["w"], array)
    theirs.save_file({"v": array}, tmp_path / "b.safetensors")
    np.testing.assert_array_equal(tensorfile.read(tmp_path / "b.safetensors")["v"], array)


def test_lowered_programs_spell_types_as_here():
    """What runs where DistIR is not installed has a table of its own."""
    text = templates.text("runtime")
    table = eval(text[text.index("SAFETENSORS = ") + len("SAFETENSORS = ") :].partition("\n}\n")[0] + "}")
    assert set(table.values()) == set(SPELLED.values())
    for theirs, spelled in table.items():
        ours = next(ours for ours, name in SPELLED.items() if name == spelled)
        assert numpy_dtype(DTYPES[ours]).name == theirs


def test_an_element_type_that_the_format_lacks():
    with pytest.raises(FormatError, match="Int4 elements"):
        safetensors.write(io.BytesIO(), {"w": Tensor(DTYPES["Int4"], (2,), lambda: memoryview(b""))})


def test_bytes_and_arrays():
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    for view in (array, array.T, array[::2], array.astype(">i2")):
        again = from_bytes(to_bytes(view.astype("<i2")), DTYPES["Int16"], view.shape)
        np.testing.assert_array_equal(again, view)


def header(entries, data=b"\0" * 8):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


W = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut off"),
        (b"\xff" * 20, "cut off"),
        (header({})[:-9], "cut off"),
        (b"\x04" + bytes(7) + b"{{{{", "not JSON"),
        (header([]), "no table"),
        (header({"w": W | {"dtype": "F7"}}), "unknown element type"),
        (header({"w": W | {"data_offsets": [0, 9]}}), "do not fit"),
        (header({"w": W | {"data_offsets": [8, 16]}}), "do not fit"),
        (header({"w": W | {"shape": [-2, -1]}}), "do not fit"),
        (header({"w": W | {"shape": ["2"]}}), "not described"),
        (header({"w": 3}), "not described"),
    ],
)
def test_what_is_not_in_the_format(tmp_path, content, said):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FormatError, match=re.escape(said)):
        safetensors.read(tmp_path / "a")
