"""Files named pytorch_model.bin that nobody should read: code, lies about sizes, bombs, damage."""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

Write = Callable[[Path, Path], None]
"""Writes a hostile file; the second path is the canary that it tries to make."""

PICKLE = "pytorch_model.bin"
HUGE = 2**60


def call(name: str, *arguments: object) -> bytes:
    """Return opcodes that call a function of a module ("os.system")."""
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + opcodes(arguments) + b"R"


def opcodes(value: object) -> bytes:
    """Return the opcodes of a plain value."""
    return pickle.dumps(value, protocol=2)[2:-1]


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def table(**entries: bytes) -> bytes:
    """Return a whole pickle of a table whose values are opcodes."""
    items = b"".join(text(name) + value for name, value in entries.items())
    return b"\x80\x02}(" + items + b"u."


def storage(n: object = 4, *, key: str = "0", kind: str = "FloatStorage", at: str = "cpu") -> bytes:
    """Return opcodes of a storage of the archive."""
    kind_code = f"ctorch\n{kind}\n".encode()
    return b"(" + text("storage") + kind_code + text(key) + text(at) + opcodes(n) + b"tQ"


def tensor(
    *,
    storage_code: bytes = b"",
    offset: object = 0,
    shape: object = (2, 2),
    stride: object = (2, 1),
) -> bytes:
    """Return opcodes of a tensor on a storage."""
    arguments = b"".join(map(opcodes, (offset, shape, stride, False)))
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + (storage_code or storage()) + arguments
    return rebuilt + b"ccollections\nOrderedDict\n)RtR"


def archive(
    data: bytes,
    *,
    records: dict[str, bytes] | None = None,
    packing: int = zipfile.ZIP_STORED,
    top: str = "archive",
) -> bytes:
    """Return a zip as torch writes it, with this pickle."""
    sheet = io.BytesIO()
    with zipfile.ZipFile(sheet, "w", packing) as file:
        entries = {"data.pkl": data, "byteorder": b"little", "data/0": bytes(16), "version": b"3\n"}
        for name, content in (entries | (records or {})).items():
            file.writestr(f"{top}/{name}", content)
    return sheet.getvalue()


def legacy(data: bytes, *, keys: object = ("0",), sizes: bytes = b"") -> bytes:
    """Return a file in the format before the zip, with this pickle."""
    magic = 0x1950A86A20F9469CFC6C
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    head = b"".join(pickle.dumps(value, protocol=2) for value in (magic, 1001, system))
    contents = sizes or struct.pack("<Q", 4) + bytes(16)
    return head + data + pickle.dumps(list(keys), protocol=2) + contents  # type: ignore[call-overload]


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "zip": archive,
    "legacy": legacy,
    "bare": bytes,
}


def _write_scripts(canary: Path) -> None:
    code = f"open({str(canary)!r}, 'w')\n"
    (canary.parent / "script.py").write_text(code)
    (canary.parent / "hubconf.py").write_text(code + "def model(): pass\n")


def list_calls(canary: Path) -> dict[str, bytes]:
    """Return opcodes that try to run code, most of which would make the canary."""
    path, touch = str(canary), f"touch {canary}"
    code, script = f"open({str(canary)!r}, 'w')", str(canary.parent / "script.py")
    inner = pickle.dumps(_MakeFolder(path), protocol=2)
    return {
        "system": call("os.system", touch),
        "posix": call("posix.system", touch),
        "mkdir": call("os.mkdir", path),
        "popen": call("os.popen", touch),
        "symlink": call("os.symlink", "/etc/passwd", path),
        "spawn": call("os.spawnlp", os.P_WAIT, "touch", "touch", path),
        "exec": call("os.execvp", "touch", ["touch", path]),
        "Popen": call("subprocess.Popen", ["touch", path]),
        "subprocess_run": call("subprocess.run", ["touch", path]),
        "check_output": call("subprocess.check_output", ["touch", path]),
        "getoutput": call("subprocess.getoutput", touch),
        "pty": call("pty.spawn", ["touch", path]),
        "eval": call("builtins.eval", code),
        "builtin_exec": call("builtins.exec", code),
        "old_eval": call("__builtin__.eval", code),
        "import": call("builtins.__import__", "antigravity"),
        "open": call("builtins.open", path, "w"),
        "io_open": call("io.open", path, "w"),
        "touch": call("pathlib.Path.touch", path),
        "timeit": call("timeit.timeit", code),
        "profile": call("cProfile.run", code),
        "runpy": call("runpy.run_path", script),
        "pickle_loads": call("pickle.loads", inner),
        "inner_pickle": call("_pickle.loads", inner),
        "torch_load_bytes": call("torch.storage._load_from_bytes", inner),
        "hub": call("torch.hub.load", str(canary.parent), "model", "local"),
        "torch_save": call("torch.save", 1, path),
        "library": call("torch.ops.load_library", script),
        "jit": call("torch.jit.load", script),
        "ctypes": call("ctypes.CDLL", script),
        "copy": call("shutil.copyfile", script, path),
        "temporary": call("tempfile.mkdtemp", "", "", path),
        "url": call("urllib.request.urlretrieve", f"file://{script}", path),
        "socket": call("socket.create_connection", ("127.0.0.1", 9)),
        "log": call("logging.FileHandler", path),
        "sqlite": call("sqlite3.connect", path),
        "numpy": call("numpy.savetxt", path, [1]),
        "partial": call("functools.partial", "os.system", touch),
        "getattr": b"cbuiltins\ngetattr\n(cos\n__name__\n" + text("system") + b"tR",
        "attrgetter": call("operator.attrgetter", "system"),
        "nested": call("builtins.map", "x", "y")[:-1] + call("os.system", touch) + b"tR",
        "signal": call("os.kill", 0, 9),
        "exit": call("os._exit", 0),
        "forks": call("os.fork"),
        "class_of_all": call("builtins.type", "X", (), {}),
    }


class _MakeFolder:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def _write_code(name: str, container: str) -> Write:
    def write(path: Path, canary: Path) -> None:
        _write_scripts(canary)
        path.write_bytes(CONTAINERS[container](table(weight=list_calls(canary)[name])))

    return write


def _write_bytes(content: Callable[[], bytes]) -> Write:
    def write(path: Path, canary: Path) -> None:
        path.write_bytes(content())

    return write


def _zipped(data: bytes, **options: Any) -> Write:
    return _write_bytes(lambda: archive(data, **options))


def _saved(make: Callable[[], object]) -> Write:
    def write(path: Path, canary: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantised tensors are going away
            torch.save(make(), path)

    return write


def _save_script(path: Path, canary: Path) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    torch.jit.save(torch.jit.trace(Doubled(), torch.zeros(2)), path)


def _whole() -> bytes:
    return archive(table(weight=tensor()))


def _flip_symlink(data: bytes) -> bytes:
    """Return a zip in which the pickle is stored as a link."""
    sheet = io.BytesIO()
    with zipfile.ZipFile(sheet, "w") as file:
        entry = zipfile.ZipInfo("archive/data.pkl")
        entry.external_attr = 0o120777 << 16
        file.writestr(entry, "/etc/passwd")
        file.writestr("archive/data/0", data)
        file.writestr("archive/version", "3\n")
    return sheet.getvalue()


def _pack_zeros(n: int) -> bytes:
    """Return an archive of `n` numbers that takes a thousandth of their room."""
    data = table(weight=tensor(storage_code=storage(n), shape=(n,), stride=(1,)))
    return archive(data, records={"data/0": bytes(4 * n)}, packing=zipfile.ZIP_DEFLATED)


def _deep(open_code: bytes, close_code: bytes) -> bytes:
    return open_code * 200_000 + close_code * 200_000


def _doubled_lists(n: int) -> bytes:
    """Return a pickle of lists in lists, each holding the one before twice."""
    steps = b"".join(
        b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(n)
    )
    return b"]q\x00" + steps


SIZES: dict[str, bytes] = {
    "promised_terabytes": tensor(shape=(HUGE,), stride=(1,)),
    "one_number_for_terabytes": tensor(shape=(2**41,), stride=(0,)),
    "one_number_for_megabytes": tensor(shape=(2**21,), stride=(0,)),
    "overflowing_shape": tensor(shape=(2**33, 2**33), stride=(0, 0)),
    "negative_shape": tensor(shape=(-2, 2)),
    "negative_stride": tensor(stride=(-2, 1)),
    "stride_out_of_storage": tensor(stride=(4096, 1)),
    "huge_stride": tensor(stride=(2**62, 1)),
    "offset_out_of_storage": tensor(offset=1_000),
    "huge_offset": tensor(offset=2**62),
    "negative_offset": tensor(offset=-5),
    "strides_missing": tensor(stride=()),
    "shape_of_texts": tensor(shape=("a", "b")),
    "shape_of_floats": tensor(shape=(2.0, 2.0)),
    "huge_storage": tensor(storage_code=storage(HUGE)),
    "negative_storage": tensor(storage_code=storage(-4)),
    "storage_of_text": tensor(storage_code=storage("4")),
    "larger_storage_than_record": tensor(storage_code=storage(4_000)),
    "no_record": tensor(storage_code=storage(key="other")),
    "key_leads_up": tensor(storage_code=storage(key="../../../../etc/passwd")),
    "key_is_absolute": tensor(storage_code=storage(key="/etc/passwd")),
    "key_is_empty": tensor(storage_code=storage(key="")),
    "key_with_null": tensor(storage_code=storage(key="0\0")),
    "on_meta": tensor(storage_code=storage(at="meta")),
    "quantised_storage": tensor(storage_code=storage(kind="QInt8Storage")),
    "complex_storage": tensor(
        storage_code=storage(1, kind="ComplexFloatStorage"), shape=(1,), stride=(1,)
    ),
    "truth_storage": tensor(storage_code=storage(kind="BoolStorage")),
    "untyped_storage": call("torch.storage.UntypedStorage", HUGE),
    "huge_bytes": call("builtins.bytearray", 2**45),
    "no_tensor": opcodes(3),
    "a_text": opcodes("weights"),
    "a_list": opcodes([1.0, 2.0]),
    "a_table": opcodes({"weight": 1}),
    "a_counter": call("collections.Counter", "aab"),
    "a_device": call("torch.device", "cpu"),
    "a_dtype": b"ctorch\nfloat32\n",
    "a_class": b"ctorch\nTensor\n",
    "empty_tensor_class": call("torch.Tensor", HUGE),
    "storage_alone": storage(),
    "no_storage": tensor(storage_code=opcodes(None)),
    "wrong_persistent_id": b"(" + text("module") + text("x") + b"tQ",
    "rebuilt_from_nothing": call("torch._utils._rebuild_tensor_v2"),
    "meta_rebuilt": call("torch._utils._rebuild_meta_tensor_no_storage", 1, (HUGE,), (1,), False),
    "sparse_rebuilt": call("torch._utils._rebuild_sparse_tensor", 1, 2),
}
"""Value of one tensor of an otherwise whole archive."""

SHAPES: dict[str, bytes] = {
    "tensor_alone": b"\x80\x02" + tensor() + b".",
    "list_of_tensors": b"\x80\x02](" + tensor() + b"e.",
    "empty_table": b"\x80\x02}.",
    "number_as_name": b"\x80\x02}(K\x01" + tensor() + b"u.",
    "bytes_as_name": b"\x80\x02}(" + opcodes((1,)) + tensor() + b"u.",
    "name_with_line": table(**{"a\nb\x1b[2J": tensor()}),
    "endless_name": table(**{"w" * 1_000: tensor()}),
    "many_tensors": table(**{f"w{i}": tensor() for i in range(20_001)}),
    "wrapped_twice": table(state_dict=table(model=table(a=tensor())[2:-1])[2:-1]),
    "wrapped_list": table(model=b"](" + tensor() + b"e"),
    "wrapper_with_more": table(state_dict=table(a=tensor())[2:-1], epoch=opcodes(1)),
    "itself": b"\x80\x02}q\x00(" + text("a") + b"h\x00u.",
    "list_of_itself": b"\x80\x02]q\x00(h\x00e.",
    "itself_as_wrapper": b"\x80\x02}q\x00(" + text("model") + b"h\x00u.",
    "deep_lists": b"\x80\x02" + _deep(b"](", b"e") + b".",
    "deep_tuples": b"\x80\x02" + _deep(b"(", b"t") + b".",
    "doubled_lists": table(weight=_doubled_lists(60)),
    "no_end": b"\x80\x02}(",
    "no_start": b".",
    "nothing": b"",
    "end_alone": b"\x80\x02.",
    "empty_stack": b"\x80\x02u.",
    "no_memo": b"\x80\x02h\x07.",
    "many_marks": b"\x80\x02" + b"(" * 5_000_000 + b".",
    "many_nones": b"\x80\x02(" + b"N" * 5_000_000 + b"l.",
    "long_text": b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"a.",
    "long_number": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1.",
    "negative_number": b"\x80\x02\x8b" + struct.pack("<i", -5) + b"1.",
    "long_bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"a.",
    "future_protocol": b"\x80\xff}.",
    "text_protocol": pickle.dumps({"a": 1}, protocol=0),
    "extension": b"\x80\x02\x84\xff\xff\xff\x7f.",
    "stack_global": b"\x80\x04"
    + text("os")
    + text("system")
    + b"\x93"
    + opcodes(("true",))
    + b"R.",
    "instance": b"(S'true'\nios\nsystem\n.",
    "object": b"(cos\nsystem\nS'true'\no.",
    "new_object": b"\x80\x02csubprocess\nPopen\n" + opcodes((["true"],)) + b"\x81.",
    "build_on_class": table(weight=b"ccollections\nOrderedDict\n}" + text("a") + b"K\x01sb"),
    "build_on_tensor": table(weight=tensor() + b"}" + text("data") + b"K\x01sb"),
}
"""Whole pickles of an archive."""

FILES: dict[str, Write] = {
    "empty": _write_bytes(bytes),
    "pointer": _write_bytes(lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
    "web_page": _write_bytes(lambda: b"\n<!DOCTYPE html><html><body>Sign in</body></html>"),
    "gzip": _write_bytes(lambda: b"\x1f\x8b" + bytes(100)),
    "noise": _write_bytes(lambda: bytes(range(256)) * 40),
    "tar": _write_bytes(lambda: b"storages".ljust(257, b"\0") + b"ustar\x0000" + bytes(300)),
    "half_zip": _write_bytes(lambda: _whole()[: len(_whole()) // 2]),
    "zip_without_directory": _write_bytes(lambda: _whole()[:-40]),
    "zip_of_nothing": _write_bytes(lambda: b"PK\x05\x06" + bytes(18)),
    "directory_lies": _write_bytes(lambda: _whole()[:-10] + b"\xff\xff\xff\x7f" + bytes(6)),
    "locked": _write_bytes(lambda: _whole().replace(b"\x14\0\0\0\0\0", b"\x14\0\1\0\0\0")),
    "half_legacy": _write_bytes(lambda: legacy(table(weight=tensor()))[:-10]),
    "legacy_huge_storage": _write_bytes(
        lambda: legacy(table(weight=tensor()), sizes=struct.pack("<Q", HUGE) + bytes(16))
    ),
    "legacy_other_keys": _write_bytes(lambda: legacy(table(weight=tensor()), keys=("9",))),
    "legacy_keys_of_code": _write_bytes(lambda: legacy(table(weight=tensor()), keys=(3, None))),
    "bomb": _write_bytes(lambda: _pack_zeros(25_000_000)),
    "bomb_of_pickle": _write_bytes(
        lambda: archive(b"\x80\x02(" + b"N" * 100_000_000 + b"l.", packing=zipfile.ZIP_DEFLATED)
    ),
    "link": _write_bytes(lambda: _flip_symlink(bytes(16))),
    "absolute_names": _zipped(table(weight=tensor()), top="/archive"),
    "names_lead_up": _zipped(table(weight=tensor()), top="../../archive"),
    "many_entries": _zipped(
        table(weight=opcodes(1)), records={f"data/{i}": b"" for i in range(1, 30_000)}
    ),
    "script": _save_script,
    "sparse": _saved(lambda: {"weight": torch.eye(3).to_sparse()}),
    "quantised": _saved(
        lambda: {"weight": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}
    ),
    "complex": _saved(lambda: {"weight": torch.ones(3, dtype=torch.complex64)}),
    "truths": _saved(lambda: {"weight": torch.ones(3, dtype=torch.bool)}),
    "meta": _saved(lambda: {"weight": torch.ones(3, device="meta")}),
    "whole_module": _saved(lambda: torch.nn.Linear(2, 2)),
    "numpy": _saved(lambda: {"weight": torch.ones(3).numpy()}),
    "safetensors": _write_bytes(lambda: (2).to_bytes(8, "little") + b"{}"),
    "plain_pickle": _write_bytes(lambda: pickle.dumps({"weight": [1.0]})),
    "endless_pickle": _write_bytes(lambda: b"\x80\x02" + b"]" * 20_000_000),
}


def list_hostile_files() -> Iterator[tuple[str, Write]]:
    """Yield a name and a function that writes the file, for every hostile file."""
    for container in CONTAINERS:
        for name in list_calls(Path("canary")):
            yield f"{name}-{container}", _write_code(name, container)
    good = tensor(storage_code=storage(key="good"))
    for name, code in SIZES.items():
        yield name, _zipped(table(weight=code, good=good), records={"data/good": bytes(16)})
    yield from ((name, _zipped(data)) for name, data in SHAPES.items())
    yield from FILES.items()
