#!/usr/bin/env python3
"""What the program is made of, without its build and its tests: parts.py licences|sbom

`licences` prints the licences with their texts, `sbom` a list of all parts in the format of CycloneDX. The
same Cargo.lock makes the same output; SOURCE_DATE_EPOCH is the time of the list.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def resolved():
    """Returns the packages of the program by their ids, and what each of them uses."""
    host = next(
        line.split(": ")[1]
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host: ")
    )
    metadata = json.loads(
        subprocess.check_output(
            ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host],
            cwd=ROOT,
        )
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    roots = ("vestal-cli", "vestal-guest", "vestal-stage")
    waiting = [id for id, package in packages.items() if package["name"] in roots]
    used = {}
    while waiting:
        id = waiting.pop()
        if id in used:
            continue
        used[id] = [
            dependency["pkg"]
            for dependency in nodes[id]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
        waiting += used[id]
    return {id: packages[id] for id in used}, used


def in_order(packages):
    return sorted(packages, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """Yields the names and texts of a package's licence files."""
    for path in sorted(pathlib.Path(package["manifest_path"]).parent.iterdir()):
        if path.is_file() and path.name.upper().startswith(TEXTS):
            yield path.name, path.read_text(encoding="utf-8", errors="replace").strip()


def licences():
    out = ["# Third-party software", "", "Vestal contains these packages.", ""]
    known = {}
    packages, _ = resolved()
    for package in in_order(package for package in packages.values() if package["source"]):
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
    return "\n".join(out)


def sbom():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    hashes = {
        (package["name"], package["version"]): package["checksum"]
        for package in lock["package"]
        if "checksum" in package
    }
    packages, used = resolved()

    def purl(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package):
        known = (package["name"], package["version"])
        found = {
            "type": "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(package),
        }
        if package["description"]:
            found["description"] = " ".join(package["description"].split())
        if package["license"]:
            # Older packages separate two by a slash.
            found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if package["source"] and known in hashes:
            found["hashes"] = [{"alg": "SHA-256", "content": hashes[known]}]
        if package["repository"]:
            found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return found

    ordered = in_order(packages.values())
    program = next(package for package in ordered if package["name"] == "vestal-cli")
    moment = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    components = [component(package) for package in ordered if package is not program]
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    about = {**component(program), "type": "application", "name": "vestal"}
    # No package of a registry.
    about.pop("purl")
    for one in components:
        if not any(one["name"] == name for name, _ in hashes):
            one.pop("purl")
    return json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{number}",
            "version": 1,
            "metadata": {
                "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "tools": {"components": [{"type": "application", "name": "scripts/lib/parts.py"}]},
                "component": about,
            },
            "components": components,
            "dependencies": [
                {
                    "ref": purl(package),
                    "dependsOn": sorted({purl(packages[id]) for id in used[package["id"]]}),
                }
                for package in ordered
            ],
        },
        indent=1,
    )


def main():
    what = {"licences": licences, "sbom": sbom}.get(sys.argv[1] if len(sys.argv) == 2 else "")
    if what is None:
        sys.exit(__doc__)
    print(what())


if __name__ == "__main__":
    main()
