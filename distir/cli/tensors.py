"""Tensors in files: inputs and results of `distir run`, and the constants that stand beside a program.

numpy's files have no type for BFloat16 and the 8-bit floats. What is stored of these are their bits, as unsigned
integers, under the tensor's name and the type's: `y.bfloat16`. Such names are read back.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from distir.cli import safetensors
from distir.cli.endings import Refused, reason
from distir.cli.files import replacing
from distir.diagnostics import suggestion
from distir.ir import DTYPES, DType, External, TensorType, TupleType, Type

if TYPE_CHECKING:
    from distir.ir import Param

EXTENSIONS = ("BFloat16", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2", "Float8E5M2FNUZ")
"""The element types that numpy lacks."""


def given_inputs(params: Sequence[Param], files: Sequence[str], archive: str | None) -> dict[str, Any]:
    """Arrays by parameter, for those that files give: `name=file.npy`, and an archive of named arrays. Raises Refused.

    The parts of a tuple are called `w.0`, `w.1`, and so on.
    """
    arrays: dict[str, Any] = {} if archive is None else _read_archive(archive)
    for flag in files:
        name, equals, path = flag.partition("=")
        if not (equals and name and path):
            raise Refused(f"`--input {flag}`: expected a name and a file", "write for example `--input x=x.npy`")
        arrays[name.strip().removeprefix("%")] = _read_array(path)
    wanted = {name: dtype for param in params for name, dtype in _leaf_dtypes(param.name, param.type)}
    arrays = {name: _plain(array, wanted.get(name)) for name, array in _spelled(arrays).items()}
    found = {param.name: value for param in params if (value := _taken(param.name, param.type, arrays)) is not None}
    for name in arrays:
        raise Refused(f"there is no input `{name}`", suggestion(name, wanted) or "the function has no parameters")
    return found


def write_archive(path: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays to an .npz file, at once or not at all. Raises Refused."""
    import numpy as np

    stored = dict(_stored(name, array) for name, array in arrays.items())
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in stored.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(cast("Any", file), np.asanyarray(array), allow_pickle=False)


def flattened(name: str, type: Type, value: Any) -> Iterable[tuple[str, Type, Any]]:
    """A value's tensors, those of a tuple as `name.0`, `name.1`, and so on."""
    if not isinstance(value, tuple):
        yield name, type, value
        return
    items = cast("tuple[Any, ...]", value)
    inner = type.items if isinstance(type, TupleType) else (type,) * len(items)
    for index, (item, item_type) in enumerate(zip(items, inner, strict=True)):
        yield from flattened(f"{name}.{index}", item_type, item)


def digest(array: Any) -> str:
    """SHA-256, in hexadecimal, of the elements' bytes: little-endian, in row-major order."""
    import hashlib

    import numpy as np

    plain = np.ascontiguousarray(array)
    if sys.byteorder == "big":
        plain = plain.byteswap()
    return hashlib.sha256(plain.reshape(-1).view(np.uint8).data).hexdigest()


def loader(folder: Path) -> Callable[[External], Any]:
    """Gives the arrays of constants that are kept in a program's folder. Raises Refused for one that is not there."""
    headers: dict[str, dict[str, safetensors.Entry]] = {}

    def load(constant: External) -> Any:
        file, _, name = constant.reference.partition("#")
        path = os.path.realpath(folder / file)
        if not Path(path).is_relative_to(os.path.realpath(folder)):
            raise Refused(f"`{constant.reference}` is not in the program's folder", "copy the file there")
        if path not in headers:
            headers[path] = safetensors.read_header(path)
        found = headers[path].get(name)
        if found is None:
            raise Refused(f"`{file}` holds no tensor `{name}`", suggestion(name, headers[path]))
        expected, actual = (TensorType(t.dtype, t.shape, None) for t in (constant, found))
        if expected != actual:
            raise Refused(f"`{constant.reference}`: expected `{expected}`, found `{actual}` in the file")
        return safetensors.load(path, found)

    return load


def _read_array(path: str) -> Any:
    import numpy as np

    try:
        with np.errstate(all="raise"):  # sizes beyond 64 bits
            loaded: Any = np.load(path, allow_pickle=False, mmap_mode="r")
    except OSError as error:
        raise Refused(f"cannot read `{path}`: {reason(error)}") from None
    except Exception as error:  # of a broken file, numpy and zipfile raise whatever they meet first
        raise Refused(f"`{path}` is no .npy file: {_brief(error)}") from None
    if not isinstance(loaded, np.ndarray):
        raise Refused(f"expected one array in `{path}`, found an archive", "give an archive with `--inputs`")
    return cast("Any", loaded)


def _read_archive(path: str) -> dict[str, Any]:
    if path.endswith(".safetensors"):
        return {name: safetensors.load(path, entry) for name, entry in safetensors.read_header(path).items()}
    import numpy as np

    try:
        _no_array(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name.removeprefix("%"): _array(archive, name) for name in archive.files}
    except Refused:
        raise
    except OSError as error:
        raise Refused(f"cannot read `{path}`: {reason(error)}") from None
    except Exception as error:  # of a broken file, numpy and zipfile raise whatever they meet first
        raise Refused(f"`{path}` is no .npz file: {_brief(error)}") from None


def _array(archive: Mapping[str, Any], name: str) -> Any:
    """Raises ValueError for what is no .npy file within an archive: numpy gives its bytes."""
    import numpy as np

    found = archive[name]
    if not isinstance(found, np.ndarray):
        raise ValueError(f"`{name}` in it is no array")  # noqa: TRY004
    return cast("Any", found)


def _no_array(path: str) -> None:
    """Raises Refused for an .npy file, before numpy reads all of it. Raises OSError."""
    from numpy.lib.format import MAGIC_PREFIX

    with open(path, "rb") as file:
        if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise Refused(f"expected an archive in `{path}`, found one array", "give it with `--input name=file.npy`")


def _brief(error: Exception) -> str:
    text = str(error).split("\n")[0].rstrip(".").lower()
    if "pickle" in text or "object" in text:
        return "it holds something else than numbers"
    return text or type(error).__name__


def _spelled(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays by their own names, with the types that their names in the file state."""
    from distir.ops import numpy_dtype

    plain: dict[str, Any] = {}
    for name, array in arrays.items():
        stem, _, last = name.rpartition(".")
        dtype = next((DTYPES[e] for e in EXTENSIONS if numpy_dtype(DTYPES[e]).name == last), None)
        bits = dtype is not None and array.dtype.kind == "u" and array.dtype.itemsize == dtype.bytes
        if dtype is not None and bits and stem:
            plain[stem] = _native(array).view(numpy_dtype(dtype))
        else:
            plain[name] = array
    return plain


def _plain(array: Any, wanted: DType | None) -> Any:
    """An array in this machine's byte order. Bytes without a type, as numpy stores BFloat16, get the type wanted."""
    from distir.ops import numpy_dtype

    if (
        array.dtype.kind == "V"
        and wanted is not None
        and array.dtype.itemsize == wanted.bytes
        and not array.dtype.names
    ):
        dtype = numpy_dtype(wanted)
        return array if array.dtype == dtype else array.view(dtype)
    return _native(array)


def _native(array: Any) -> Any:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _leaf_dtypes(name: str, type: Type) -> Iterable[tuple[str, DType | None]]:
    if isinstance(type, TupleType):
        for index, item in enumerate(type.items):
            yield from _leaf_dtypes(f"{name}.{index}", item)
    else:
        yield name, type.dtype if isinstance(type, TensorType) else None


def _taken(name: str, type: Type, arrays: dict[str, Any]) -> Any:
    """The value of a parameter, taken out of the arrays; None if there is nothing of it. Raises Refused."""
    if not isinstance(type, TupleType):
        return arrays.pop(name, None)
    items = [_taken(f"{name}.{index}", item, arrays) for index, item in enumerate(type.items)]
    lacking = [index for index, item in enumerate(items) if item is None]
    if lacking and len(lacking) < len(items):
        raise Refused(f"`{name}.{lacking[0]}` is missing, other parts of `{name}` are given")
    return None if lacking or not items else tuple(items)


def _stored(name: str, array: Any) -> tuple[str, Any]:
    from distir.ops import dtype_of

    dtype = dtype_of(array)
    if dtype.name not in EXTENSIONS:
        return name, array
    return f"{name}.{array.dtype.name}", array.view(f"uint{8 * dtype.bytes}")
