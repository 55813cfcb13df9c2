"""The client that waits, against real sandboxes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import until

import vestal
from vestal import Board, Client, Sandbox
from vestal._calls import WINDOW
from vestal._connection import Pending
from vestal.client import CANCEL_WITHIN
from vestal.results import Chunk

Processes = Callable[[], list[int]]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Has Ctrl-C raise, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_command_has_a_result_and_a_session_keeps_its_state(sandbox: Sandbox) -> None:
    sandbox.run("mkdir -p src; cd src; export LANTERN=lit", check=True)
    command = "pwd; echo $LANTERN $WICK; cat; echo no >&2; exit 3"
    result = sandbox.run(command, env={"WICK": "long"}, input="in\n")
    assert (result.exit_code, result.ok, result.timed_out) == (3, False, False)
    assert result.stdout == "/workspace/src\nlit long\nin\n"
    assert result.stderr == "no\n"
    assert (result.task, result.omitted, result.session_state) == ("web", 0, "saved")
    clean = sandbox.run("echo ${LANTERN-unset}", session=None)
    assert clean.stdout == "unset\n"
    assert sandbox.run(["printf", "%s|", "a b", "$HOME"]).stdout == "a b|$HOME|"
    assert sandbox.run("pwd", workdir="/tmp").stdout == "/tmp\n"


def test_the_same_name_finds_the_same_sandbox_in_another_process(
    sandbox: Sandbox, program: str, environment: dict[str, str]
) -> None:
    sandbox.run("echo kept > visits", check=True)
    with Client(program=program, env=environment) as other:
        again = Sandbox.open("web", client=other)
        assert (again.task, again.backend) == (sandbox.task, sandbox.backend)
        assert again.run("cat visits").stdout == "kept\n"
        assert [found.state for found in other.sandboxes()] == ["running"]
    assert sandbox.run("cat visits").stdout == "kept\n", "its end stops no sandbox"


def test_a_command_that_fails_is_an_exception_only_if_it_is_checked(native: Sandbox) -> None:
    with pytest.raises(vestal.CommandFailed, match="exit code 7: no wick") as failed:
        native.run("echo out; echo no wick >&2; exit 7", check=True)
    assert (failed.value.result.exit_code, failed.value.result.stdout) == (7, "out\n")
    late = native.run("sleep 60", timeout=0.2)
    assert (late.exit_code, late.timed_out) == (124, True)
    with pytest.raises(vestal.CommandTimedOut):
        late.check()


def test_output_is_kept_exactly_and_no_further_than_it_may_be(native: Sandbox) -> None:
    result = native.run(r"printf 'a\377b'")
    assert (result.stdout, result.stdout_bytes) == ("a\ufffdb", b"a\xffb")
    long = native.run("seq 1 100000", max_output=1000)
    assert long.stdout.startswith("1\n2\n") and long.stdout.endswith("99999\n100000\n")
    assert long.omitted == 588895 - 1000
    assert len(long.stdout_bytes) < 1200


def test_kinds_of_errors_are_classes_with_advice(native: Sandbox, client: Client) -> None:
    with pytest.raises(vestal.NotFound, match="sandbox.open makes it") as missing:
        Sandbox(client, "mistyped", "native").run("true")
    assert missing.value.kind == "no_sandbox" and missing.value.advice
    with pytest.raises(FileNotFoundError):
        native.files.read("no/such")
    with pytest.raises(vestal.InvalidRequest, match="timeout"):
        native.run("true", timeout=-1)
    with pytest.raises(vestal.InvalidRequest, match="backend"):
        Sandbox.open("other", backend="paper", client=client)
    native.snapshot("one")
    with pytest.raises(vestal.AlreadyExists):
        native.snapshot("one")
    launch = client._hub.launch
    env = dict(launch.environment or ())
    with Client(program=launch.program, isolated=True, env=env) as careful:
        with pytest.raises(vestal.NotIsolated):
            Sandbox.open("mine", backend="local", client=careful)


def test_output_comes_as_it_is_written(sandbox: Sandbox) -> None:
    with sandbox.stream("echo ready; read line; echo got $line; printf tail", stdin=True) as stream:
        lines = stream.lines()
        assert next(lines) == "ready"
        stream.write("wick\n")
        assert list(lines) == ["got wick", "tail"]
        result = stream.wait()
    assert (result.exit_code, result.stdout) == (0, "")


def test_a_stream_that_nobody_reads_holds_its_command_up_and_nobody_else(
    native: Sandbox, mark: str, processes: Processes
) -> None:
    with native.stream(f"yes {mark}", session=None) as stream:
        first = next(stream)
        assert first.text.startswith(mark)
        # Far more than may be on its way; the others are not behind it.
        for number in range(20):
            assert native.run(f"echo {number}", session=None).stdout == f"{number}\n"
        waiting = [stream._events.get_nowait() for _ in range(stream._events.qsize())]
        outputs = [Chunk.from_json(event) for event in waiting if event["type"] == "job.output"]
        assert sum(len(chunk.data) for chunk in outputs) <= WINDOW
        assert processes()
    assert not processes(), "whoever leaves kills the command"
    zeros = native.stream("head -c 20000000 /dev/zero", session=None)
    assert sum(len(chunk.data) for chunk in zeros) == 20_000_000


def test_a_job_outlives_its_process_and_is_found_again(
    sandbox: Sandbox, program: str, environment: dict[str, str]
) -> None:
    with Client(program=program, env=environment) as other:
        command = "while read line; do echo got $line; done; exit 4"
        job = Sandbox.open("web", client=other).start(command)
        job.write("one\n")
    again = sandbox.job(job.id)
    assert not again.wait(0).ended
    again.write("two\n")
    follow = again.follow()
    lines = follow.lines()
    assert [next(lines), next(lines)] == ["got one", "got two"]
    assert [one.id for one in sandbox.jobs()] == [job.id]
    logs = again.logs(stdout_from=4, max_bytes=3)
    assert (logs.stdout.text, logs.stdout.start, logs.stdout.next) == ("one", 4, 7)
    again.close_stdin()
    assert (again.wait().exit_code, follow.wait().exit_code) == (4, 4)
    # A job is listed until its last process is gone, which is a moment after its end.
    until("nothing of it is left", lambda: sandbox.jobs() == [])


def test_a_job_is_killed_with_everything_it_started(
    native: Sandbox, mark: str, processes: Processes
) -> None:
    job = native.start(f"setsid sleep {mark} & sleep {mark}")
    until("it runs", lambda: len(processes()) == 2)
    ended = job.kill()
    assert (ended.ended, ended.cause, processes()) == (True, "killed", [])


def test_the_same_job_id_runs_a_command_once(native: Sandbox) -> None:
    for _ in range(2):
        result = native.run("echo once >> visits; wc -l < visits", job="j-visit")
        assert (result.stdout.strip(), result.job) == ("1", "j-visit")


def test_files_are_used_exactly(sandbox: Sandbox) -> None:
    files = sandbox.files
    data = bytes(range(256)) * 4096
    written = files.write("deep/blob", data, mode=0o640)
    assert (written.path, written.size, written.mode) == ("/workspace/deep/blob", len(data), 0o640)
    assert files.read("deep/blob") == data
    assert files.read_range("deep/blob", 255, 2) == b"\xff\x00"
    files.write("deep/notes", "eins\nzwei\ndrei\n")
    assert files.patch("deep/notes", ("zwei", "2"), ("drei", "3")) == 2
    assert files.read_text("deep/notes") == "eins\n2\n3\n"
    with pytest.raises(vestal.Conflict):
        files.patch("deep/notes", ("vier", "4"))
    assert [entry.name for entry in files.list("deep")] == ["blob", "notes"]
    found = files.search("^[23]$", path="deep")
    assert [(hit.path, hit.line) for hit in found.matches] == [("notes", 2), ("notes", 3)]
    files.mkdir("a/b")
    files.move("deep/notes", "a/b/notes")
    assert (files.exists("deep/notes"), files.stat("a/b").is_dir) == (False, True)
    sandbox.run("cd a/b")
    assert files.in_session("main").read_text("notes").endswith("3\n")
    files.delete("a", recursive=True)
    with pytest.raises(vestal.FileNotFound):
        files.stat("a")


def test_a_file_of_any_size_is_read_whole(native: Sandbox) -> None:
    native.run("seq 1 2000000 > numbers", check=True)
    whole = native.files.read("numbers")
    assert (len(whole), whole[-8:]) == (14888896, b"2000000\n")
    with pytest.raises(vestal.VestalError, match="may have"):
        native.files.write("too-much", whole)


def test_a_sandbox_goes_back_and_is_copied(native: Sandbox) -> None:
    native.files.write("state", "before")
    kept = native.snapshot(note="the good one")
    native.files.write("state", "after")
    copy = native.fork("copy", snapshot=kept)
    assert copy.files.read("state") == b"before"
    native.restore(kept)
    assert native.files.read("state") == b"before"
    assert [(one.name, one.note) for one in native.snapshots()] == [(kept.name, "the good one")]
    native.delete_snapshot(kept)
    assert native.snapshots() == []
    assert native.stop() and not native.stop()
    assert native.run("cat state").stdout == "before"


def test_a_directory_of_the_host_is_the_workspace_of_its_own_sandbox(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = home / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    sandbox = Sandbox.open("web", backend="native", mount_cwd=True, client=client)
    assert sandbox.task == f"web@{project}"
    sandbox.run("echo seen > here", check=True)
    assert (project / "here").read_text() == "seen\n"


def test_calls_of_many_threads_share_one_process(client: Client) -> None:
    def work(number: int) -> str:
        sandbox = Sandbox.open(f"t{number % 3}", backend="native", client=client)
        return sandbox.run(f"echo {number}", session=None).stdout

    with ThreadPoolExecutor(12) as pool:
        outputs = list(pool.map(work, range(60)))
    assert outputs == [f"{number}\n" for number in range(60)]
    assert len(client.sandboxes()) == 3


def test_ctrl_c_kills_the_command_and_leaves_the_client_working(
    native: Sandbox, mark: str, processes: Processes, ctrl_c: None
) -> None:
    def interrupt() -> None:
        until("it runs", processes)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        native.run(f"sleep {mark}")
    interrupter.join()
    assert not processes()
    assert native.run("echo on").stdout == "on\n"


def test_ctrl_c_at_the_moment_of_sending_leaves_no_command_either(
    native: Sandbox, client: Client, mark: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.run("true")
    connection = client._hub.connection()
    send = connection.send

    def interrupted(pending: Pending) -> None:
        send(pending)
        until("it runs", processes)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        native.run(f"sleep {mark}")
    assert not processes()
    with pytest.raises(KeyboardInterrupt):
        native.stream(f"sleep {mark}")
    assert not processes()


def test_ctrl_c_before_a_request_is_sent_waits_for_no_answer(
    native: Sandbox, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = client._hub.connection()

    def interrupted(pending: Pending) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(connection, "send", interrupted)
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            native.run("true")
        assert time.monotonic() - begun < CANCEL_WITHIN / 2
    assert native.run("echo on").stdout == "on\n"


def test_a_program_that_dies_is_named_and_the_next_call_starts_another(
    native: Sandbox, client: Client, mark: str, processes: Processes
) -> None:
    connection = client._hub.connection()

    def kill() -> None:
        until("it runs", processes)
        connection._process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(vestal.ConnectionLost, match="finds its command again") as lost:
        native.run(f"sleep {mark}")
    killer.join()
    # Who is killed cannot take its command along; it is found again by its id.
    assert lost.value.job is not None
    job = native.job(lost.value.job)
    assert not job.info().ended
    assert job.kill().cause == "killed"


def test_a_python_process_that_is_killed_leaves_no_command_and_its_sandbox_as_it_was(
    native: Sandbox, program: str, environment: dict[str, str], mark: str, processes: Processes
) -> None:
    job = native.start("sleep 600")
    code = f"""
from vestal import Client, Sandbox
client = Client(program={program!r})
Sandbox.open("web", client=client).run("sleep {mark}", session=None)
"""
    python = {**environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    child = subprocess.Popen([sys.executable, "-c", code], env=python)
    until("it runs", processes)
    child.kill()
    child.wait()
    until("its command is gone", lambda: not processes())
    assert not job.info().ended


def test_a_fork_of_this_process_has_a_connection_of_its_own(native: Sandbox) -> None:
    native.run("true")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = native.run("echo child", session=None).stdout
            native._client.close()
        except BaseException as error:  # It must not run the other tests.
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said_by_child:
        assert said_by_child.read() == "child\n"
    os.waitpid(child, 0)
    assert native.run("echo parent").stdout == "parent\n"


def test_tasks_of_the_board_are_made_and_completed(client: Client) -> None:
    board = Board(author="ada", client=client)
    first = board.create("light the lantern", "with oil", idempotency_key="k")
    assert board.create("again", idempotency_key="k").id == first.id
    second = board.create("carry it", parents=[first.id])
    assert {task.id for task in board.list()} == {first.id, second.id}
    board.comment(first.id, "soon")
    shown = board.show(first.id)
    assert [(one.author, one.body) for one in shown.comments] == [("ada", "soon")]
    assert board.complete(first.id, "lit", result="bright").status == "done"
    assert board.show(first.id).task.result == "bright"
    with pytest.raises(vestal.NotFound):
        board.show("t_4x7k2m9qwe3r")
