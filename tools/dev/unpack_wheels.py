"""Unpacks the parts of the wheels that a C++ program needs: unpack_wheels.py DIRECTORY WHEEL..."""

import os
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

# Without torch's Python files. The .dist-info folders contain the versions and the licences.
WANTED = ("torch/include/", "torch/lib/", "nvidia/")
UNWANTED = ("torch/lib/libtorch_python.so", "torch/lib/libshm")


def wanted(name):
    return (name.startswith(WANTED) or ".dist-info/" in name) and not name.startswith(UNWANTED)


def unpack(wheel, names, directory):
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            archive.extract(name, directory)


def main(directory, *wheels):
    with ThreadPoolExecutor(2) as pool:  # zlib lets other threads run
        jobs = []
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                infos = [info for info in archive.infolist() if wanted(info.filename)]
            # Make the folders first: in zipfile, two threads that make the same folder conflict.
            for folder in {os.path.dirname(info.filename) for info in infos}:
                os.makedirs(os.path.join(directory, folder), exist_ok=True)
            infos = [info for info in infos if not info.is_dir()]
            large = [[info.filename] for info in infos if info.file_size > 1 << 24]
            small = [info.filename for info in infos if info.file_size <= 1 << 24]
            jobs += [pool.submit(unpack, wheel, names, directory) for names in [*large, small]]
        for job in jobs:
            job.result()


try:
    main(*sys.argv[1:])
except (OSError, zipfile.BadZipFile) as error:
    sys.exit(f"dev: {error}")
