#!/usr/bin/env python3
"""Prints the licences of everything that is linked into the program, with their texts."""

import json
import pathlib
import subprocess
import sys

TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def linked():
    """Yields the packages that the program is made of, without those of its build and tests."""
    host = next(
        line.split(": ")[1]
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host: ")
    )
    metadata = json.loads(
        subprocess.check_output(
            ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
        )
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    roots = ("vestal-cli", "vestal-guest", "vestal-stage")
    waiting = [id for id, package in packages.items() if package["name"] in roots]
    seen = set()
    while waiting:
        id = waiting.pop()
        if id in seen:
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    found = (packages[id] for id in seen if packages[id]["source"])
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """Yields the names and texts of a package's licence files."""
    for path in sorted(pathlib.Path(package["manifest_path"]).parent.iterdir()):
        if path.is_file() and path.name.upper().startswith(TEXTS):
            yield path.name, path.read_text(encoding="utf-8", errors="replace").strip()


def main():
    out = ["# Third-party software", "", "Vestal contains these packages.", ""]
    known = {}
    for package in linked():
        licence = package["license"] or "see its text"
        out.append(f"## {package['name']} {package['version']}: {licence}")
        if package["repository"]:
            out.append(package["repository"])
        for name, text in texts(package):
            # Most texts are the same: each stands here once.
            first = known.setdefault(text, f"{package['name']} {package['version']}, {name}")
            if first.startswith(f"{package['name']} {package['version']},"):
                out += [f"### {name}", "", "```text", text, "```"]
            else:
                out.append(f"{name}: as of {first}")
        out.append("")
    sys.stdout.write("\n".join(out))


if __name__ == "__main__":
    main()
