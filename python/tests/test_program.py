"""How the program is found, and what is said when it cannot run here or misbehaves."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import vestal
from vestal import Client, Sandbox, _program
from vestal._connection import Connection, Launch


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_program, "_in_wheel", lambda: None)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_program_is_found_by_the_variable_and_then_on_the_path(
    home: Path, without_wheel: None
) -> None:
    found = script(home / "vestal", "")
    assert _program.find_program({"VESTAL_PROGRAM": "/there", "PATH": str(home)}) == "/there"
    assert _program.find_program({"PATH": str(home)}) == found
    with pytest.raises(vestal.ProgramNotFound, match="VESTAL_PROGRAM"):
        _program.find_program({"PATH": "/nowhere"})


def test_another_system_is_refused_in_one_sentence() -> None:
    with pytest.raises(vestal.UnsupportedPlatform) as refused:
        _program.require_linux("darwin")
    assert str(refused.value) == "Vestal runs on Linux, and this is darwin"


def test_a_program_of_another_machine_or_library_is_named_in_one_sentence(home: Path) -> None:
    foreign = home / "foreign"
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    foreign.chmod(0o755)
    with pytest.raises(vestal.UnsupportedPlatform, match="is not a program for"):
        Connection(Launch(program=str(foreign)))
    message = "vestal: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_9.99' not found (required by vestal)"
    newer = script(home / "newer", f"import sys; print({message!r}, file=sys.stderr); sys.exit(1)")
    with pytest.raises(vestal.UnsupportedPlatform, match="needs GLIBC 9.99, and this system has") as old:
        Connection(Launch(program=newer))
    assert "\n" not in str(old.value)
    with pytest.raises(vestal.ProgramNotFound, match="there is no program"):
        Connection(Launch(program=str(home / "missing")))


def test_a_kernel_that_is_too_old_is_named_in_one_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_program, "kernel_release", lambda: (4, 4))
    killed = script(home / "killed", "import os; os.kill(os.getpid(), 31)")
    with pytest.raises(vestal.UnsupportedPlatform, match="needs Linux 5.12 or newer, and this is 4.4"):
        Connection(Launch(program=killed))


READY = (
    'print(\'{"jsonrpc":"2.0","method":"event","params":{"type":"sandboxes.ready",'
    '"payload":{"max_frame_bytes":1000000}}}\', flush=True)\n'
)


def test_a_program_that_sends_garbage_fails_its_requests_and_no_others(home: Path) -> None:
    answer = "sys.stdin.readline(); print('hello', flush=True); sys.stdin.read()"
    garbage = script(home / "garbage", f"import sys\n{READY}{answer}")
    client = Client(program=garbage)
    with pytest.raises(vestal.ConnectionLost, match="no answer"):
        Sandbox(client, "t", "native").run("true")
    client.close()


def test_what_the_program_says_as_it_fails_is_in_the_error(home: Path) -> None:
    text = "import sys; print('error: no such profile', file=sys.stderr); sys.exit(2)"
    failing = script(home / "failing", text)
    with pytest.raises(vestal.ConnectionLost, match="no such profile"):
        Client(program=failing).sandboxes()


def test_python_m_vestal_is_the_program(program: str) -> None:
    command = [sys.executable, "-m", "vestal", "--version"]
    environment = {"VESTAL_PROGRAM": program, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    asked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert asked.returncode == 0 and asked.stdout.startswith("vestal "), asked
