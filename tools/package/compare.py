#!/usr/bin/env python3
"""Compares the packages of two builds (their SHA256SUMS), and says what differs, and why as far as that can be seen.

    compare.py FIRST SECOND    two folders like build/dist; exit code 2: something differs; 3: the image alone, because its
                               packages of Debian had updates between the two builds
    compare.py --self-test     checks that planted differences are found

Of a package that differs, the members are compared: of a Debian package those of its two tar files, of an image those of its
layers. Of a member, its content (of a program or library the sections, of a text the first line), mode, owner and time are
compared. If no member differs, the same members were packed in another way.
"""

import contextlib
import gzip
import hashlib
import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import zipfile

MOST_LINES = 60  # of one package
WHY = {
    "time": "a time is not that of the commit (SOURCE_DATE_EPOCH)",
    "mode": "a mode depends on the umask, or on the tool that has written the file",
    "owner": "an owner depends on who has packed",
    "order": "names are not sorted when they are packed",
    "packed": "the compressor: its version, or how many threads it had",
    "build id": "the linker has made the build id of other content, of debug sections that were stripped for example",
    "folder": "a folder or a name of the machine is in the content",
    "only": "a file is not made each time, or its name changes",
}


def sums(folder):
    """{name: SHA-256} of SHA256SUMS, and of files that it does not list."""
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    found = {name.lstrip(" *"): digest for digest, _, name in (line.partition(" ") for line in lines)}
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name != "SHA256SUMS" and file.name not in found:
            with open(file, "rb") as content:
                found[file.name] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


def of_tar(archive, before=""):
    """(name, {what: value}, file or None) of each member."""
    for member in archive:
        about = {"type": member.type.decode(), "mode": oct(member.mode), "link": member.linkname, "time": member.mtime,
                 "owner": f"{member.uid}:{member.gid} {member.uname}:{member.gname}"}  # fmt: skip
        yield before + member.name, about, archive.extractfile(member) if member.isreg() else None


def of_zip(file):
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            about = {"mode": oct(info.external_attr >> 16), "time": info.date_time, "compression": info.compress_type}
            with archive.open(info) as content:
                yield info.filename, about, content


def of_deb(file):
    for part, option in (("control", "--ctrl-tarfile"), ("data", "--fsys-tarfile")):
        with subprocess.Popen(["dpkg-deb", option, str(file)], stdout=subprocess.PIPE) as unpacked:
            with tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive:
                yield from of_tar(archive, part + "/")
            unpacked.stdout.read()
        if unpacked.returncode:
            raise SystemExit(f"compare: dpkg-deb cannot read {file}")


def of_image(file):
    """An archive in OCI's format: the manifest, the configuration, and the members of each layer."""
    with tarfile.open(file) as archive:
        def blob(descriptor):
            return archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/"))

        for entry in json.load(archive.extractfile("index.json"))["manifests"]:
            manifest = json.load(blob(entry))
            with blob(manifest["config"]) as content:
                yield "configuration", {}, content
            for number, layer in enumerate(manifest["layers"]):
                with tarfile.open(fileobj=blob(layer), mode="r|*") as unpacked:
                    yield from of_tar(unpacked, f"layer {number}/")


def members(file):
    """As of_tar(); None: it is no archive."""
    name = file.name
    if name.endswith((".whl", ".zip")):
        return of_zip(file)
    if name.endswith(".deb"):
        return of_deb(file)
    if name.endswith(".oci.tar"):
        return of_image(file)
    if ".tar" in name:
        return of_tar_file(file)
    return None


def of_tar_file(file):
    with tarfile.open(file, "r|*") as archive:
        yield from of_tar(archive)


def summary(file):
    """{name: {what: value}}, with the hash of the content."""
    found = {}
    for name, about, content in members(file):
        digest = "" if content is None else hashlib.file_digest(content, "sha256").hexdigest()
        found[name] = {**about, "content": digest}
    return found


def contents(file, names):
    """{name: bytes}"""
    return {name: content.read() for name, _, content in members(file) if name in names and content is not None}


def sections(elf):
    """{name: bytes} of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<2I4Q", elf, table + i * size) for i in range(count)]
    strings = headers[names][4]
    found = {}
    for name, kind, _, _, offset, length in headers:
        title = elf[strings + name : elf.index(b"\0", strings + name)].decode()
        found[title] = b"" if kind == 8 else elf[offset : offset + length]  # SHT_NOBITS
    return found


def first_difference(first, second):
    """Where two texts or contents begin to differ."""
    step, shorter = 1 << 16, min(len(first), len(second))
    for at in range(0, shorter, step):
        if first[at : at + step] != second[at : at + step]:
            return next((i for i in range(at, shorter) if first[i] != second[i]), shorter)
    return shorter


def around(first, second):
    """The text where two contents begin to differ; "" if that is no text."""
    at = first_difference(first, second)
    texts = []
    for content in (first, second):
        begin = max(content.rfind(b"\0", 0, at), at - 60) + 1
        text = content[begin : at + 60].partition(b"\0")[0]
        if len(text) < 4 or not text.decode("latin-1").isprintable():
            return ""
        texts.append(repr(text.decode("latin-1")))
    return " and ".join(texts)


def difference(first, second):
    """What differs between two contents, and a key of WHY or ""."""
    if first[:4] == second[:4] == b"\x7fELF":
        a, b = sections(first), sections(second)
        names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        if names == [".note.gnu.build-id"]:
            return "its build id", "build id"
        texts = {name: around(a.get(name, b""), b.get(name, b"")) for name in names}
        shown = ", ".join(f"{name} ({texts[name]})" if texts[name] else name for name in names)
        return f"sections {shown}", "folder" if any("/" in text for text in texts.values()) else ""
    if first[:2] == second[:2] == b"\x1f\x8b":
        a, b = gzip.decompress(first), gzip.decompress(second)
        if a == b:
            return "how it is packed", "packed"
        return difference(a, b)
    with contextlib.suppress(UnicodeDecodeError):
        lines = itertools.zip_longest(first.decode().splitlines(), second.decode().splitlines())
        for number, (a, b) in enumerate(lines, 1):
            if a != b:
                a, b = str(a), str(b)
                begin = max(first_difference(a, b) - 40, 0)
                return f"from line {number} on: {a[begin : begin + 80]!r} and {b[begin : begin + 80]!r}", ""
    text = around(first, second)
    return f"{len(first)} and {len(second)} bytes" + (f": {text}" if text else ""), ""


def compare_packages(first, second):
    """Lines that say what differs, and the keys of WHY."""
    if members(first) is None:
        what, why = difference(first.read_bytes(), second.read_bytes())
        return [what], {why}
    a, b = summary(first), summary(second)
    lines = [f"{name}: only in the {which}" for which, own, other in (("first", a, b), ("second", b, a))
             for name in own if name not in other]  # fmt: skip
    reasons = {"only"} if lines else set()
    both = [name for name in a if name in b]
    changed = {name for name in both if a[name]["content"] != b[name]["content"]}
    before, after = contents(first, changed), contents(second, changed)
    for name in both:
        told = []
        if name in before and name in after:
            what, why = difference(before[name], after[name])
            told.append(what)
            reasons.add(why)
        for key in a[name]:
            if key != "content" and a[name][key] != b[name].get(key):
                told.append(f"{key} {a[name][key]} and {b[name].get(key)}")
                reasons.add(key)
        if told:
            lines.append(f"{name}: {'; '.join(told)}")
    if both != [name for name in b if name in a]:
        lines.append("the members have another order")
        reasons.add("order")
    if not lines:
        lines.append("no member differs: they are packed in another way")
        reasons.add("packed")
    return lines, reasons


def debian_updates(first, second):
    """Lines that say which packages of Debian have another version in the second image (its list of parts)."""
    a, b = ({part["bom-ref"]: part["version"] for file in folder.glob("*.oci.cdx.json")
             for part in json.loads(file.read_text())["components"]} for folder in (first, second))  # fmt: skip
    return [f"{part.split('/')[1]} {a.get(part, '(none)')} and {b.get(part, '(none)')}"
            for part in sorted({**a, **b}) if a.get(part) != b.get(part)]  # fmt: skip


def compare(first, second):
    """Prints what differs. Returns the exit code."""
    a, b = sums(first), sums(second)
    differ, reasons = set(), set()
    for name in sorted({**a, **b}):
        if a.get(name) == b.get(name):
            print(f"{name}: the same bytes")
            continue
        differ.add(name)
        if name not in a or name not in b:
            print(f"{name}: only in the {'first' if name in a else 'second'}")
            reasons.add("only")
            continue
        lines, why = compare_packages(first / name, second / name)
        reasons |= why
        print(f"{name}: differs")
        for line in lines[:MOST_LINES]:
            print(f"    {line}")
        if len(lines) > MOST_LINES:
            print(f"    and {len(lines) - MOST_LINES} more")
    print(f"{len(differ)} of {len({**a, **b})} packages differ")
    if not differ:
        return 0
    if all(".oci." in name for name in differ) and (changed := debian_updates(first, second)):
        print("only the image differs; between the two builds, Debian changed these packages of it:")
        print("\n".join(f"    {line}" for line in changed))
        return 3
    for key, text in WHY.items():
        if key in reasons:
            print(f"perhaps: {text}")
    return 2


def main():
    if sys.argv[1:] == ["--self-test"]:
        import compare_self_test

        return compare_self_test.main()
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py FIRST SECOND | --self-test")
    return compare(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
