"""The list of a package's parts, as CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/)."""

import hashlib
import pathlib
import platform
import re
import sys
import tarfile
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot5
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

import binaries


def licenses_of(copyright_file):
    """The names in a machine-readable copyright file; none in others."""
    text = pathlib.Path(copyright_file).read_text()
    return sorted(set(re.findall(r"^License:[ \t]*(\S.*?)\s*$", text, re.M)))


def of_debian(package):
    version, architecture = binaries.output_of("dpkg-query", "-W", "-f", "${Version} ${Architecture}\n", package).split("\n")[0].split()
    return Component(
        type=ComponentType.LIBRARY, name=package, version=version, bom_ref=f"debian/{package}",
        purl=PackageURL("deb", "debian", package, version, {"arch": architecture}),
        licenses=[DisjunctiveLicense(name=name) for name in licenses_of(f"/usr/share/doc/{package}/copyright")],
    )  # fmt: skip


def of_wheel(name, version):
    license = "BSD-3-Clause" if name == "torch" else "NVIDIA CUDA EULA"
    return Component(type=ComponentType.LIBRARY, name=name, version=version, bom_ref=f"wheel/{name}",
                     purl=PackageURL("pypi", None, name, version), licenses=[DisjunctiveLicense(name=license)])  # fmt: skip


def of_page():
    """What the page of a run has in it, and rekindle-board with the page."""
    text = (binaries.SOURCE / "board/page/uplot.js").read_text()
    version = re.search(r"uPlot \(v([0-9.]+)\)", text)[1]
    return Component(type=ComponentType.LIBRARY, name="uPlot", version=version, bom_ref="page/uPlot",
                     purl=PackageURL("npm", None, "uplot", version), licenses=[DisjunctiveLicense(id="MIT")])  # fmt: skip


def has_one_mkl(folder):
    """LibTorch for other processors is built without it."""
    return (folder / "lib/libtorch_cpu.so").exists() and platform.machine() == "x86_64"


def inside_torch(folder):
    """What LibTorch's libraries have in them, or bring along, and its list of parts does not name."""
    if has_one_mkl(folder):
        yield Component(type=ComponentType.LIBRARY, name="oneMKL", bom_ref="torch/oneMKL",
                        licenses=[DisjunctiveLicense(name="Intel Simplified Software License (Version October 2022)")])  # fmt: skip
    if any(folder.glob("lib/libgomp*")):
        license = DisjunctiveLicense(name="GPL-3.0-or-later WITH GCC-exception-3.1")
        yield Component(type=ComponentType.LIBRARY, name="libgomp", bom_ref="torch/libgomp", licenses=[license])


def of_file(file, folder):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    name = str(file.relative_to(folder))
    return Component(type=ComponentType.FILE, name=name, bom_ref=f"file/{name}",
                     hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)])  # fmt: skip


def new_bom():
    bom = Bom()
    bom.metadata.timestamp = None  # the same bytes whenever it is written
    bom.metadata.component = Component(
        type=ComponentType.APPLICATION, name="rekindle", version=binaries.version(), bom_ref="rekindle",
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
    )  # fmt: skip
    return bom


def write_bom(bom, path, contents):
    """`contents`: a text that changes whenever a part does."""
    bom.register_dependency(bom.metadata.component, bom.components)
    digest = hashlib.sha256(contents.encode()).hexdigest()
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"rekindle/{bom.metadata.component.version}/{digest}")
    text = JsonV1Dot5(bom).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
        binaries.fail(f"the list of parts is not CycloneDX: {error}")
    path.write_text(text + "\n")


def write(path, packages, wheels, folder, licenses="share/doc/rekindle/licenses"):
    """`wheels`: names and versions. `folder`: whose programs and libraries are listed with their hashes."""
    bom = new_bom()
    bom.metadata.properties.add(Property(name="licence texts", value=licenses))
    for package in packages:
        bom.components.add(of_debian(package))
    bom.components.add(of_page())
    bom.components.update(inside_torch(folder))
    for name, number in wheels:
        bom.components.add(of_wheel(name, number))
    files = [of_file(file, folder) for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix != ".py"]
    bom.components.update(files)
    write_bom(bom, path, "".join(f"{file.name} {file.hashes[0].content}\n" for file in files))


def write_of_image(path, status):
    """`status`: the text of the image's /var/lib/dpkg/status. The package rekindle has a list of its own parts."""
    bom = new_bom()
    installed = []
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture): (.*)$", paragraph, re.M))
        if not fields:
            continue
        name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
        installed.append(f"{name} {version} {architecture}\n")
        bom.components.add(Component(
            type=ComponentType.LIBRARY, name=name, version=version, bom_ref=f"debian/{name}/{architecture}",
            purl=PackageURL("deb", "debian", name, version, {"arch": architecture}),
        ))  # fmt: skip
    bom.metadata.properties.add(Property(name="licence texts", value="usr/share/doc/*/copyright"))
    write_bom(bom, path, "".join(installed))


if __name__ == "__main__":  # sbom.py IMAGE_SYSTEM.tar FILE: the Debian packages of an image
    with tarfile.open(sys.argv[1]) as archive:
        write_of_image(pathlib.Path(sys.argv[2]), archive.extractfile("./var/lib/dpkg/status").read().decode())
