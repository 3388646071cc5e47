"""Planted differences, which compare.py must find: compare.py --self-test."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile

import compare


def elf(**sections):
    """A file with such sections, and nothing in it to run."""
    names, body, headers = b"\0", b"", [(0, 0, 0, 0, 0, 0)]
    for name, content in {**{f".{name}": content for name, content in sections.items()}, ".shstrtab": b""}.items():
        at = len(names)
        names += name.encode() + b"\0"
        content = content or names
        headers.append((at, 1, 0, 0, 64 + len(body), len(content)))
        body += content
    table = b"".join(struct.pack("<2I4Q16x8x", *header) for header in headers)
    start = struct.pack("<4s36xQ10x3H", b"\x7fELF", 64 + len(body), 64, len(headers), len(headers) - 1)
    return start + body + table


def tar(members, how="w", time=1, mode=0o644):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=how) as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(text), time, mode
            archive.addfile(info, io.BytesIO(text))
    return content.getvalue()


def wheel(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()


def image(system):
    """`system`: the members of its layer."""
    layer, blobs = gzip.compress(tar(system), mtime=0), {}

    def add(content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}"}

    manifest = {"config": add(b"{}"), "layers": [add(layer)]}
    index = {"manifests": [add(json.dumps(manifest).encode())]}
    return tar({**blobs, "index.json": json.dumps(index).encode()})


def deb(folder, text):
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr").mkdir()
    for each in (tree, tree / "DEBIAN", tree / "usr"):
        each.chmod(0o755)  # dpkg-deb refuses others
    (tree / "DEBIAN/control").write_text("Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <m@localhost>\nDescription: d\n")
    (tree / "usr/file").write_text(text)
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(folder / "p.deb")], check=True, capture_output=True,
                   env={**os.environ, "SOURCE_DATE_EPOCH": "1"})  # fmt: skip
    shutil.rmtree(tree)


# Of each package: the first content, the second, and what has to be said; None: nothing.
PLANTED = {
    "same.json": (b"{}", b"{}", None),
    "parts.json": (b"{\n1\n}", b"{\n2\n}", "    from line 2 on: '1' and '2'"),
    "a.whl": (wheel({"a.py": b"a = 1\n", "b.py": b""}), wheel({"a.py": b"a = 2\n", "b.py": b""}),
              "    a.py: from line 1 on: 'a = 1' and 'a = 2'"),
    "content.tar": (tar({"program": elf(text=b"code", rodata=b"x\0/home/a/f.cpp")}),
                    tar({"program": elf(text=b"code", rodata=b"x\0/home/b/f.cpp")}),
                    "    program: sections .rodata ('/home/a/f.cpp' and '/home/b/f.cpp')"),
    "id.tar": (tar({"lib": elf(text=b"code", **{"note.gnu.build-id": b"1"})}),
               tar({"lib": elf(text=b"code", **{"note.gnu.build-id": b"2"})}), "    lib: its build id"),
    "time.tar.xz": (tar({"f": b"1"}, "w:xz"), tar({"f": b"1"}, "w:xz", time=2), "    f: time 1 and 2"),
    "mode.tar": (tar({"f": b"1"}), tar({"f": b"1"}, mode=0o600), "    f: mode 0o644 and 0o600"),
    "only.tar": (tar({"f": b"1"}), tar({"f": b"1", "g": b"1"}), "    g: only in the second"),
    "order.tar": (tar({"f": b"1", "g": b"1"}), tar({"g": b"1", "f": b"1"}), "    the members have another order"),
    "packed.tar.gz": (gzip.compress(tar({"f": b"1" * 999}), 1, mtime=0), gzip.compress(tar({"f": b"1" * 999}), 9, mtime=0),
                      "    no member differs: they are packed in another way"),
    "page.tar": (tar({"p.1.gz": gzip.compress(b"p", mtime=1)}), tar({"p.1.gz": gzip.compress(b"p", mtime=2)}),
                 "    p.1.gz: how it is packed"),
    "i.oci.tar": (image({"etc/issue": b"1\n"}), image({"etc/issue": b"2\n"}),
                  "    layer 0/etc/issue: from line 1 on: '1' and '2'"),
    "more.txt": (None, b"more", "more.txt: only in the second"),
}  # fmt: skip


def parts(version):
    return json.dumps({"components": [{"bom-ref": "debian/libc6/amd64", "version": version}]}).encode()


# Only the image differs: with newer packages of Debian in it, which is no fault, and without.
IMAGES = ({"i.oci.tar": image({"lib": b"1"}), "i.oci.cdx.json": parts("1")},
          {"i.oci.tar": image({"lib": b"2"}), "i.oci.cdx.json": parts("2")},
          {"i.oci.tar": image({"lib": b"2"}), "i.oci.cdx.json": parts("1")})  # fmt: skip


def write_sums(folder):
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines))


def check_images(directory):
    folders = []
    for number, files in enumerate(IMAGES):
        folders.append(directory / f"image{number}")
        folders[-1].mkdir()
        for name, content in {"same.json": b"{}", **files}.items():
            (folders[-1] / name).write_bytes(content)
        write_sums(folders[-1])
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        codes = [compare.compare(folders[0], other) for other in folders]
    assert codes == [0, 3, 2], (codes, output.getvalue())
    assert "    libc6 1 and 2\n" in output.getvalue(), output.getvalue()


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_images(pathlib.Path(directory))
        folders = [pathlib.Path(directory) / name for name in ("first", "second")]
        wanted, same = [], ["same.json: the same bytes"]
        for place, folder in enumerate(folders):
            folder.mkdir()
            for name, contents in PLANTED.items():
                if contents[place] is not None:
                    (folder / name).write_bytes(contents[place])
            if shutil.which("dpkg-deb"):
                deb(folder, f"{place}\n")
            write_sums(folder)
        wanted = [told for _, _, told in PLANTED.values() if told]
        if shutil.which("dpkg-deb"):
            wanted.append("    data/./usr/file: from line 1 on: '0' and '1'")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = compare.compare(*folders)
            alike = compare.compare(folders[0], folders[0])
        printed = output.getvalue()
        for line in wanted + same:
            assert printed.count(f"{line}\n") >= 1, (line, printed)
        assert f"\n{len(wanted)} of {len(PLANTED) + bool(shutil.which('dpkg-deb'))} packages differ\n" in printed, printed
        assert code == 2 and alike == 0, (code, alike)
        for key in ("time", "mode", "order", "packed", "build id", "folder", "only"):
            assert f"perhaps: {compare.WHY[key]}\n" in printed, (key, printed)
    print("compare: the planted differences are found")
    return 0
