"""Tensors in files: inputs and results of `distir run`, and the constants of a program.

numpy's files have no type for BFloat16 and the 8-bit floats. These are stored as their bits, as unsigned integers,
under the tensor's name and the type's: `y.bfloat16`. Such names are read back.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from distir.cli.endings import Refused
from distir.cli.files import replacing
from distir.diagnostics import suggestion
from distir.files import safetensors
from distir.files.reading import advice, mapped, opened, why_not
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


def loader(folder: Path) -> Callable[[External], Any]:
    """Gives the arrays of constants that are kept in a program's folder. Raises Refused for one that is not there."""
    files: dict[str, dict[str, safetensors.Tensor]] = {}

    def load(constant: External) -> Any:
        file, _, name = constant.reference.partition("#")
        path = os.path.realpath(folder / file)
        if not Path(path).is_relative_to(os.path.realpath(folder)):
            raise Refused(f"`{constant.reference}` is not in the program's folder", "copy the file there")
        if path not in files:
            files[path] = _tensors_of(path)
        found = files[path].get(name)
        if found is None:
            raise Refused(f"`{file}` has no tensor `{name}`", suggestion(name, files[path]))
        expected, actual = (TensorType(t.dtype, t.shape, None) for t in (constant, found))
        if expected != actual:
            raise Refused(f"`{constant.reference}`: expected `{expected}`, found `{actual}` in the file")
        return _array_of(found)

    return load


def _tensors_of(path: str) -> dict[str, safetensors.Tensor]:
    """The tensors of a safetensors file. Raises Refused."""
    try:
        return safetensors.read(path)
    except OSError as error:
        raise _unread(path, error) from None
    except safetensors.FormatError as error:
        raise Refused(f"`{path}` is not a safetensors file: {error}") from None


def _array_of(tensor: safetensors.Tensor) -> Any:
    from distir.ops.numeric import from_bytes

    return from_bytes(tensor.load(), tensor.dtype, tensor.shape)


def _unread(path: str, error: OSError) -> Refused:
    return Refused(f"cannot read `{path}`: {why_not(error)}", advice(error))


def _read_array(path: str) -> Any:
    import numpy as np

    whole = memoryview(b"")
    try:
        whole = mapped(path)
        with np.errstate(all="raise"):  # sizes beyond 64 bits
            return _npy(whole)
    except OSError as error:
        raise _unread(path, error) from None
    except Exception as error:  # of a broken file, numpy raises whatever it meets first
        if bytes(whole[:2]) == b"PK":
            advised = "give an archive with `--inputs`"
            raise Refused(f"expected one array in `{path}`, found an archive", advised) from None
        raise Refused(f"`{path}` is not a .npy file: {_brief(error)}") from None


def _npy(whole: memoryview) -> Any:
    """The array of an .npy file, its elements left where they are. Raises ValueError, or what numpy raises."""
    from io import BytesIO

    import numpy as np
    from numpy.lib import format as npy

    if bytes(whole[: len(_NPY)]) != _NPY:
        raise ValueError("it has non-numeric elements")
    head = BytesIO(whole[:LARGEST_HEADER])
    version = npy.read_magic(head)
    if version not in _HEADERS:
        raise ValueError(f"it has the unsupported format version {version[0]}.{version[1]}")
    shape, by_columns, dtype = getattr(npy, _HEADERS[version])(head)
    if dtype.hasobject:
        raise ValueError("it has Python objects")
    order = "F" if by_columns else "C"
    count = math.prod(shape)
    if not count:
        return np.zeros(shape, dtype, order)
    return np.frombuffer(whole, dtype, count, head.tell()).reshape(shape, order=order)


LARGEST_HEADER = 1 << 20
_HEADERS = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}
"""numpy's readers of headers; 3.0 is for arrays of records, which are no tensors."""


def _read_archive(path: str) -> dict[str, Any]:
    if path.endswith(".safetensors"):
        return {name: _array_of(tensor) for name, tensor in _tensors_of(path).items()}
    import numpy as np

    try:
        with opened(path) as file:
            _no_array(file, path)
            with np.load(file, allow_pickle=False) as archive:
                return {name.removeprefix("%"): _array(archive, name) for name in archive.files}
    except Refused:
        raise
    except OSError as error:
        raise _unread(path, error) from None
    except Exception as error:  # of a broken file, numpy and zipfile raise whatever they meet first
        raise Refused(f"`{path}` is not a .npz file: {_brief(error)}") from None


_NPY = b"\x93NUMPY"
"""How an .npy file begins."""


def _array(archive: Mapping[str, Any], name: str) -> Any:
    """Raises ValueError for an entry of an archive that is not a .npy file: numpy returns its bytes."""
    import numpy as np

    found = archive[name]
    if not isinstance(found, np.ndarray):
        raise ValueError(f"its entry `{name}` is not an array")  # noqa: TRY004
    return cast("Any", found)


def _no_array(file: IO[bytes], path: str) -> None:
    """Raises Refused for an .npy file, before numpy reads all of it. Raises OSError."""
    if file.read(len(_NPY)) == _NPY:
        raise Refused(f"expected an archive in `{path}`, found one array", "give it with `--input name=file.npy`")
    file.seek(0)


def _brief(error: Exception) -> str:
    text = str(error).split("\n")[0].rstrip(".").lower()
    if "pickle" in text or "object" in text:
        return "it has non-numeric elements"
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
        raise Refused(f"`{name}.{lacking[0]}` is missing, but other elements of `{name}` are given")
    return None if lacking or not items else tuple(items)


def _stored(name: str, array: Any) -> tuple[str, Any]:
    from distir.ops import dtype_of

    dtype = dtype_of(array)
    if dtype.name not in EXTENSIONS:
        return name, array
    return f"{name}.{array.dtype.name}", array.view(f"uint{8 * dtype.bytes}")
