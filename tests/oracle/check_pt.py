#!/usr/bin/env python3
"""Reads an exported .pt without PyTorch and compares it with an export to .h5: needs h5py and numpy.

check_pt.py FILE.pt FILE.h5
"""
import collections
import io
import pickle
import sys
import zipfile

import numpy as np

DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8", "IntStorage": "<i4", "ByteStorage": "u1",
          "BFloat16Storage": "<u2"}  # the bits: numpy has no such type


def check_layout(path):
    """What torch.save's own files look like to those who map them."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None, "a CRC does not match"
        for entry in archive.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED, entry.filename
            with open(path, "rb") as file:
                file.seek(entry.header_offset + 26)
                name_bytes, extra_bytes = (int.from_bytes(file.read(2), "little") for _ in range(2))
            assert (entry.header_offset + 30 + name_bytes + extra_bytes) % 64 == 0, entry.filename


def rebuild_tensor(storage, offset, shape, strides, requires_grad, hooks):
    """torch._utils._rebuild_tensor_v2; offset and strides are in elements."""
    assert not requires_grad and not hooks
    item = storage.itemsize
    return np.ndarray(shape, storage.dtype, storage, offset * item, [stride * item for stride in strides])


class StateDict(pickle.Unpickler):
    """Knows no more than torch.load(weights_only=True) allows."""

    def __init__(self, archive, folder):
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")))
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        if module == "torch":
            return np.dtype(DTYPES[name])
        return {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
        }[module, name]

    def persistent_load(self, pid):
        kind, dtype, key, location, elements = pid
        assert (kind, location) == ("storage", "cpu"), pid
        storage = np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), dtype)
        assert storage.size == elements, pid
        return storage


def load(path):
    with zipfile.ZipFile(path) as archive:
        folder = archive.namelist()[0].split("/")[0]  # of any name; torch takes the first record's
        assert archive.read(f"{folder}/byteorder") == b"little"
        assert archive.read(f"{folder}/version") == b"3\n"
        tensors = StateDict(archive, folder).load()
    assert type(tensors) is collections.OrderedDict
    return tensors


def compare(tensors, path):
    import h5py  # check_torch.py, which takes check_layout from here, does without

    with h5py.File(path, "r") as file:
        assert set(file) == set(tensors), f"only in one of both: {sorted(set(file) ^ set(tensors))}"
        for name, value in tensors.items():
            dataset = file[name]
            assert dataset.shape == value.shape, f"{name}: another shape"
            if value.dtype == np.uint16:  # bfloat16, which h5py would make other floats of
                kind = dataset.id.get_type()
                assert (kind.get_fields(), kind.get_ebias()) == ((15, 7, 8, 0, 7), 127), f"{name}: another type"
                same = np.fromfile(path, "<u2", value.size, offset=dataset.id.get_offset() or 0)
            else:
                assert dataset.dtype == value.dtype, f"{name}: another type"
                same = np.asarray(dataset[()])
            assert same.tobytes() == value.tobytes(), f"{name}: other bytes"


def main(pt, h5):
    check_layout(pt)
    tensors = load(pt)
    compare(tensors, h5)
    print(f"ok: {len(tensors)} tensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
