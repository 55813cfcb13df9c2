#!/usr/bin/env python3
"""Makes the wheel of the Python package around a program that is built: wheel.py [--fast] PROGRAM DIRECTORY

`maturin build` makes the same from the sources. This one takes the very program that the other packages have,
fetches nothing, and makes the same file of the same input (SOURCE_DATE_EPOCH is its time). Its tag says what the
program needs, as it is read from the program. Prints the path of the wheel.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import struct
import sys
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MACHINES = {62: "x86_64", 183: "aarch64"}

# What every system with a tag `manylinux` has, by PEP 600.
EVERYWHERE = re.compile(r"(lib(c|m|dl|rt|pthread|util|gcc_s)\.so\.\d+|ld-linux-[a-z0-9-]+\.so\.\d+)")

# Packed relocations are read by loaders of this version and newer, whatever symbols are used.
RELR = (2, 36)


class Elf:
    """As much of a program as says what it needs."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit("wheel.py: the program is no 64-bit little-endian ELF file")
        self.data = data
        self.machine = struct.unpack_from("<H", data, 18)[0]
        self.segments = self.table(*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54), "<IIQQQQQQ")
        self.sections = self.table(*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58), "<IIQQQQIIQQ")

    def table(self, offset, size, count, form):
        return [struct.unpack_from(form, self.data, offset + at * size) for at in range(count)]

    def text(self, strings, at):
        start = self.sections[strings][4] + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    @property
    def is_dynamic(self):
        return any(kind == 3 for kind, *_ in self.segments)

    def needed(self):
        """Returns the libraries that it is linked with."""
        found = []
        for _, kind, _, _, offset, size, link, *_ in self.sections:
            if kind == 6:
                for at in range(offset, offset + size, 16):
                    tag, value = struct.unpack_from("<QQ", self.data, at)
                    if tag == 1:
                        found.append(self.text(link, value))
        return found

    def versions(self):
        """Returns the versions of libraries that it needs, such as GLIBC_2.34."""
        found = set()
        for _, kind, _, _, offset, _, link, count, *_ in self.sections:
            if kind != 0x6FFFFFFE:
                continue
            for _ in range(count):
                _, entries, _, first, following = struct.unpack_from("<HHIII", self.data, offset)
                at = offset + first
                for _ in range(entries):
                    _, _, _, name, after = struct.unpack_from("<IHHII", self.data, at)
                    found.add(self.text(link, name))
                    at += after
                offset += following
        return found


def platform_tag(elf):
    """Returns the platforms that the program runs on."""
    machine = MACHINES.get(elf.machine)
    if machine is None:
        sys.exit(f"wheel.py: there is no tag for machine {elf.machine}")
    if not elf.is_dynamic:
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    foreign = [name for name in elf.needed() if not EVERYWHERE.fullmatch(name)]
    if foreign:
        sys.exit(f"wheel.py: not every system has {', '.join(foreign)}; link it statically")
    glibc = (2, 17)
    for version in elf.versions():
        number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if number:
            glibc = max(glibc, (int(number[1]), int(number[2])))
        elif version == "GLIBC_ABI_DT_RELR":
            glibc = max(glibc, RELR)
    return f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"


def metadata(project, version):
    """Returns the file METADATA."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        "Description-Content-Type: text/markdown; charset=UTF-8",
        "",
        (ROOT / "python" / project["readme"]).read_text(),
    ]
    return "\n".join(lines)


def main():
    fast = sys.argv[1:2] == ["--fast"]
    program, out = map(pathlib.Path, sys.argv[2 if fast else 1 :])
    data = program.read_bytes()
    tag = platform_tag(Elf(data))
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    name = f"{project['name']}-{version}"
    package = ROOT / "python/src"
    files = {
        str(path.relative_to(package)): path.read_bytes()
        for path in sorted((package / project["name"]).rglob("*"))
        if path.suffix == ".py" or path.name == "py.typed"
    }
    files[f"{name}.data/scripts/vestal"] = data
    info = f"{name}.dist-info"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    files[f"{info}/METADATA"] = metadata(project, version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: vestal\nRoot-Is-Purelib: false\n{tags}".encode()
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{licence}"] = (ROOT / licence).read_bytes()
    record = io.StringIO(newline="")
    rows = csv.writer(record, lineterminator="\n")
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    # The format knows no time before 1980.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1 if fast else 9) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main()
