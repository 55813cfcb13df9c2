#!/usr/bin/env python3
"""Counts the source files that one warm `vestal run true` crosses, and one turn of the agent.

    cargo build -p vestal-cli -p vestal-guest -p vestal-scripted-model
    scripts/lib/files-crossed.py [--functions] [--backend BACKEND]

The program runs under valgrind's callgrind. The guest is another process, which valgrind
cannot run (it has no pidfd_open); so a guest with symbols takes the place of the embedded
one, and gdb stands at each of its functions. A file is crossed when a function ran that
somebody wrote there: what the compiler or a macro derives is nothing to read, and neither
are functions of libraries that are only compiled here.

Needs valgrind, gdb, binutils and a C compiler. Runs in a home of its own.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 120

# Functions that nobody wrote.
DERIVED = re.compile(
    r" as (core::(clone|cmp|default|hash|fmt::Debug)|serde|minicbor|clap_builder)|::deserialize|::_::"
)
SOURCE = re.compile(r"^.*?/crates/((?!core_arch)[^/]+/src/.*\.rs)$")

# Starts the guest with symbols where the program starts the embedded one.
SWAP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
                           const posix_spawnattr_t *, char *const[], char *const[]);
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
    const char *other = getenv("GUEST_WITH_SYMBOLS"), *slash = strrchr(file, '/');
    if (other && slash && !strncmp(slash, "/guest-", 7)) file = other;
    return ((spawn_function *)dlsym(RTLD_NEXT, "posix_spawnp"))(pid, file, actions, attributes, argv, envp);
}
"""

# What gdb runs: notes each function of the guest that is entered until the file `done` is there.
TRACE = r"""
import gdb, os
for setting in ("pagination off", "confirm off", "breakpoint pending off", "debuginfod enabled off"):
    try:
        gdb.execute("set " + setting)
    except gdb.error:
        pass
gdb.execute("handle SIGTERM SIGCHLD SIGPIPE SIGUSR1 nostop noprint pass", to_string=True)
entered = set()

class Function(gdb.Breakpoint):
    def stop(self):
        if not os.path.exists("{dir}/done"):
            entered.add(int(self.location[1:], 16))
        return False

for line in open("{dir}/addresses"):
    Function("*%#x" % ({base} + int(line, 16)))
open("{dir}/ready-{pid}", "w").close()
try:
    gdb.execute("continue")
finally:
    with open("{dir}/entered-{pid}", "w") as file:
        file.writelines("%x\n" % (address - {base}) for address in entered)
"""


def await_file(path, why):
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{why} within {PATIENCE} s")
        time.sleep(0.05)


def is_written(function):
    """Reports whether somebody wrote the function; failpoints are in builds for tests only."""
    return "vestal" in function and "::failpoint::" not in function and not DERIVED.search(function)


def plain(function):
    """Returns the function's name without closures and modules."""
    function = re.sub(r"(::\{\{closure\}\}|'\d+)+", "", function)
    return re.sub(r"vestal\w*::(?:[a-z_0-9]+::)*(?=\w)", "", function)


def functions_of_callgrind(path):
    """Returns the functions that ran, by source file."""
    names, found, file = {}, collections.defaultdict(set), ""
    for line in open(path):
        match = re.match(r"(c?fl|f[ie]|c?fi|c?fn)=\((\d+)\)(?: (.*))?$", line.rstrip("\n"))
        if not match:
            continue
        kind, number, name = match.groups()
        table = names.setdefault("fn" if kind.endswith("fn") else "file", {})
        if name is not None:
            table[number] = name
        if kind == "fl":
            file = table[number]
        elif kind == "fn":
            source = SOURCE.match(file)
            if source and is_written(table[number]):
                found[source[1]].add(plain(table[number]))
    return found


def functions_of_program(program):
    """Returns the functions with their addresses and source files."""
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    addresses = [line.split()[0] for line in symbols.splitlines() if " t " in line or " T " in line]
    told = subprocess.run(
        ["addr2line", "-e", program, "-f", "-C"],
        input="\n".join(addresses), check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    found = {}
    for address, function, place in zip(addresses, told[::2], told[1::2]):
        source = SOURCE.match(place.split(":")[0])
        if source and is_written(function):
            found[int(address, 16)] = (source[1], plain(function))
    return found


def trace(directory, program, pid):
    """Starts gdb at a process and returns it."""
    for line in open(f"/proc/{pid}/maps"):
        if line.rstrip().endswith(str(program)):
            base = int(line.split("-")[0], 16)
            break
    else:
        sys.exit(f"process {pid} does not run {program}")
    script = directory / f"trace-{pid}.py"
    script.write_text(TRACE.replace("{dir}", str(directory)).replace("{base}", hex(base)).replace("{pid}", str(pid)))
    tracer = subprocess.Popen(
        ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    await_file(directory / f"ready-{pid}", "gdb did not stand at the functions of the guest")
    return tracer


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def read_url(server):
    return server.stdout.readline().decode().strip()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--functions", action="store_true", help="name the functions, too")
    arguments.add_argument("--backend", default="native", help="of the host's part (default: native)")
    arguments.add_argument("--target", default=ROOT / "target/debug", type=pathlib.Path, help="where the programs are")
    options = arguments.parse_args()
    vestal, guest = options.target.resolve() / "vestal", options.target.resolve() / "vestal-guest"

    with tempfile.TemporaryDirectory(prefix="files-crossed.") as name:
        directory = pathlib.Path(name)
        environment = {"PATH": os.environ["PATH"], "HOME": name, "VESTAL_HOME": f"{name}/home"}

        def run(*command, **more):
            subprocess.run([str(word) for word in command], check=True, timeout=PATIENCE, env={**environment, **more},
                           cwd=name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        # The host's part.
        command = [vestal, "run", "-b", options.backend, "true"]
        run(*command)
        run("valgrind", "--tool=callgrind", f"--callgrind-out-file={name}/host", *command)
        found = functions_of_callgrind(directory / "host")

        # A turn in which the model, which says what it is told to, runs the same command.
        model = subprocess.Popen([options.target.resolve() / "scripted-model", "--echo"], stdout=subprocess.PIPE)
        try:
            settings = {"model.base_url": read_url(model), "model.default": "m", "approvals.unattended": "allow"}
            command = [vestal, *(word for pair in settings.items() for word in ("--set", "=".join(pair)))]
            command += ["chat", "-b", options.backend, "-q", "$ true"]
            run(*command)
            run("valgrind", "--tool=callgrind", f"--callgrind-out-file={name}/turn", *command)
        finally:
            model.kill()
            model.wait()
        turn = functions_of_callgrind(directory / "turn")
        run(vestal, "rm", "--files", "-y", "default")

        # The guest's part.
        (directory / "swap.c").write_text(SWAP)
        run("cc", "-shared", "-fPIC", "-o", "swap.so", "swap.c", "-ldl")
        command = [vestal, "run", "-b", "local", "true"]
        run(*command, LD_PRELOAD=f"{name}/swap.so", GUEST_WITH_SYMBOLS=str(guest))
        run(*command)
        (identity,) = directory.glob("home/sandboxes/*/instances/*/io/guest.json")
        pid = re.search(r'"pid":(\d+)', identity.read_text())[1]
        functions = functions_of_program(guest)
        (directory / "addresses").write_text("".join(f"{address:x}\n" for address in functions))
        tracers = [trace(directory, guest, process) for process in [*children(pid), pid]]
        run(*command)
        (directory / "done").touch()
        run(vestal, "rm", "--files", "-y", "default")
        for tracer in tracers:
            tracer.wait(PATIENCE)
        for path in directory.glob("entered-*"):
            for line in path.read_text().split():
                source, function = functions[int(line, 16)]
                found[source].add(function)

    def show(functions):
        for source in sorted(functions):
            print(f"crates/{source}")
            if options.functions:
                for function in sorted(functions[source]):
                    print(f"    {function}")

    show(found)
    guests = sum(source.startswith("guest/") for source in found)
    print(f"a command: {len(found)} files, {len(found) - guests} of the program, {guests} of the guest\n")
    more = {source: functions for source, functions in turn.items() if source not in found}
    show(more)
    print(f"a turn: {len(more)} files more")


if __name__ == "__main__":
    main()
