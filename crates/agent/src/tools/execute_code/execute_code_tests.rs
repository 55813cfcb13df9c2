use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ExecuteCode;
use crate::approvals::{ApprovalPolicy, GuardMode, Unattended};
use crate::testing::{AgentFixture, marker, processes_with, until};
use crate::tools::{TerminalTool, standard};

fn stage() -> AgentFixture {
    AgentFixture::new().with_tools(standard())
}

async fn run(stage: &AgentFixture, code: &str) -> Value {
    stage.call(&ExecuteCode, json!({ "code": code })).await
}

fn reported(result: &Value) -> (&str, &str) {
    (result["status"].as_str().unwrap(), result["output"].as_str().unwrap())
}

#[tokio::test]
async fn a_script_prints_and_ends() {
    let stage = stage();
    let result = run(&stage, "import sys\nprint('out')\nprint('err', file=sys.stderr)").await;
    assert_eq!(reported(&result), ("success", "out\n"));
    assert_eq!((&result["exit_code"], &result["tool_calls_made"]), (&json!(0), &json!(0)));
    assert_eq!(
        (&result["stdout_bytes_total"], &result["stdout_truncated"]),
        (&json!(4), &json!(false))
    );
    assert!(stage.tool_output().contains("out\n"));
    // What it takes to be the main module is there.
    let code = "import sys\nassert __name__ == '__main__' and sys.argv == ['script.py']\nimport __main__\nx = 1\nassert __main__.x == 1";
    assert_eq!(reported(&run(&stage, code).await), ("success", ""));
}

#[tokio::test]
async fn a_script_that_fails_shows_why() {
    let stage = stage();
    let result =
        run(&stage, "print('before')\ndef f():\n    raise ValueError('no good')\nf()").await;
    let expected = "before\n--- stderr ---\nTraceback (most recent call last):\n  File \"script.py\", line 4, in <module>\n    f()\n  File \"script.py\", line 3, in f\n    raise ValueError('no good')\nValueError: no good\n";
    assert_eq!(reported(&result), ("error", expected));
    assert_eq!(result["exit_code"], 1);
    let result = run(&stage, "import sys; sys.exit(7)").await;
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("error"), &json!(7)));
    let result = run(&stage, "def broken(:").await;
    assert!(reported(&result).1.contains("SyntaxError"), "{result}");
    let result = run(&stage, "import os; os.kill(os.getpid(), 9)").await;
    assert_eq!(result["exit_code"], 137);
}

#[tokio::test]
async fn a_script_calls_tools_by_either_name_of_the_module() {
    let stage = stage();
    let code = r#"
from vestal_tools import write_file, read_file, search_files, patch, terminal, shell_quote, json_parse, retry
import hermes_tools
write_file("notes.txt", "one\ntwo\n")
patch("notes.txt", "two", "three")
print(read_file("notes.txt")["content"].replace("\n", "/"))
print(len(search_files("three", path=".")) > 0)
result = hermes_tools.terminal("cat notes.txt; exit 4")
print(result["output"], result["exit_code"])
print(shell_quote("a b"), json_parse('{"x": "\t"}'))
tries = []
def fails_once():
    tries.append(1)
    if len(tries) < 2: raise OSError()
    return "at last"
print(retry(fails_once, delay=0))
"#;
    let result = run(&stage, code).await;
    let (status, output) = reported(&result);
    assert_eq!(status, "success", "{output}");
    assert!(output.contains("three") && output.contains("one\nthree\n 4"), "{output}");
    assert!(output.ends_with("'a b' {'x': '\\t'}\nat last\n"), "{output}");
    assert_eq!(result["tool_calls_made"], 5);
    let written = std::fs::read_to_string(stage.start_dir().join("notes.txt")).unwrap();
    assert_eq!(written, "one\nthree\n");
}

#[tokio::test]
async fn a_script_runs_where_the_shell_is_and_leaves_it_there() {
    let stage = stage();
    stage.call(&TerminalTool, json!({"command": "mkdir d; cd d; export word=told"})).await;
    let code = "import os; print(os.path.basename(os.getcwd()), os.environ['word']); os.chdir('/')";
    assert_eq!(reported(&run(&stage, code).await), ("success", "d told\n"));
    let after = stage.call(&TerminalTool, json!({"command": "basename $PWD"})).await;
    assert_eq!(after["output"], "d\n");
}

#[tokio::test]
async fn calls_of_many_threads_are_answered_one_by_one() {
    let stage = stage();
    let code = r#"
from concurrent.futures import ThreadPoolExecutor
from vestal_tools import terminal
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(lambda n: terminal(f"echo {n}")["output"].strip(), range(24))))
"#;
    let result = run(&stage, code).await;
    let expected: Vec<String> = (0..24).map(|n| format!("'{n}'")).collect();
    assert_eq!(reported(&result), ("success", format!("[{}]\n", expected.join(", ")).as_str()));
}

#[tokio::test]
async fn calls_are_counted_and_limited() {
    let stage = stage().with_limits(|limits| limits.code_tool_calls = 2);
    let code = "from vestal_tools import *\nfor n in range(3):\n    print(terminal('echo hi')['output'].strip())";
    let result = run(&stage, code).await;
    assert_eq!((&result["status"], &result["tool_calls_made"]), (&json!("error"), &json!(2)));
    assert!(reported(&result).1.starts_with("hi\nhi\n--- stderr ---"));
    assert!(reported(&result).1.contains("ToolError: a script may make 2 tool calls"));
}

#[tokio::test]
async fn only_the_tools_for_scripts_can_be_called_and_commands_stay_in_the_foreground() {
    let stage = stage();
    let code = r#"
import vestal_tools
vestal_tools._available = {"clarify", "terminal", "execute_code"}
for name in ("clarify", "execute_code", "nothing"):
    try: vestal_tools._call(name)
    except vestal_tools.ToolError as error: print(error)
print(vestal_tools._call("terminal", command="echo front", background=True)["output"])
"#;
    let result = run(&stage, code).await;
    let expected = "\"clarify\" is not a tool that scripts can call here\n\"execute_code\" is not a tool that scripts can call here\nnothing is not available in this conversation\nfront\n\n";
    assert_eq!(reported(&result), ("success", expected));
}

#[tokio::test]
async fn a_command_of_a_script_passes_the_same_guard() {
    let policy = ApprovalPolicy {
        deny: vec!["touch *".to_owned()],
        mode: GuardMode::Off,
        unattended: Unattended::Allow,
        ..ApprovalPolicy::default()
    };
    let stage = stage().guarded_by(policy);
    let code = "from vestal_tools import terminal\nprint(terminal('touch ' + 'ran')['status'])";
    assert_eq!(reported(&run(&stage, code).await), ("success", "blocked\n"));
    assert!(!stage.start_dir().join("ran").exists());
}

#[tokio::test]
async fn a_script_whose_time_is_up_is_killed_with_all_it_started() {
    let stage = stage().with_limits(|limits| limits.code_timeout = Duration::from_secs(5));
    let mark = marker();
    let code = format!(
        "import subprocess\nfrom vestal_tools import terminal\nprint('begun')\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\nterminal('sleep {mark}')"
    );
    let result = run(&stage, &code).await;
    assert_eq!(reported(&result).0, "timeout");
    assert!(reported(&result).1.starts_with("begun\n"), "{result}");
    assert_eq!(result["tool_calls_made"], 1);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn an_interrupt_ends_the_script_and_the_command_it_waits_for() {
    let stage = stage();
    let mark = marker();
    let code =
        format!("from vestal_tools import terminal\nprint('begun')\nterminal('sleep {mark}')");
    let interrupting = async {
        until("the command runs", || !processes_with(&format!("sleep\0{mark}")).is_empty()).await;
        stage.context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(run(&stage, &code), interrupting);
    assert_eq!(reported(&result).0, "interrupted");
    assert!(reported(&result).1.starts_with("begun\n"), "{result}");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_call_that_is_given_up_takes_its_script_along() {
    let stage = stage();
    {
        let code = "import time\nprint('begun')\ntime.sleep(1000)";
        let mut call = Box::pin(run(&stage, code));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            () = until("it runs", || stage.tool_output() == "begun\n") => {}
        }
    }
    let sandbox = stage.sandbox().await;
    let filter = vestal_sandbox::job::JobFilter::Running;
    tokio::time::timeout(crate::testing::TEST_TIMEOUT, async {
        while !sandbox.jobs(filter, 10).await.unwrap().jobs.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn much_output_leaves_beginning_and_end_and_never_blocks_a_call() {
    let stage = stage();
    let code = r#"
import threading
from vestal_tools import terminal
print("HEAD")
noise = threading.Thread(target=lambda: [print("x" * 1000) for _ in range(5000)])
noise.start()
assert len(terminal("head -c 40000 /dev/zero | tr '\\0' y")["output"]) == 40000
noise.join()
print("TAIL")
"#;
    let result = run(&stage, code).await;
    let (status, output) = reported(&result);
    assert!(output.starts_with("HEAD\n") && output.ends_with("TAIL\n"), "{}", &output[..200]);
    assert_eq!((status, &result["stdout_truncated"]), ("success", &json!(true)));
    assert_eq!(result["stdout_bytes_total"], 5_005_000 + 10);
    assert!(result["hint"].as_str().unwrap().contains("kept nowhere"), "{}", result["hint"]);
    assert!(output.len() < 50_200);
}

#[tokio::test]
async fn a_write_into_the_connection_ends_the_script() {
    let stage = stage();
    for forged in ["b'garbage'", "b'o' + b'\\xff' * 4", "b'c' + struct.pack('>II', 4, 1 << 31)"] {
        let code = format!(
            "import os, struct, time\nfd = os.open(f'/proc/{{os.getppid()}}/fd/1', os.O_WRONLY)\nos.write(fd, {forged})\ntime.sleep(1000)"
        );
        let result = run(&stage, &code).await;
        let error = result["error"].as_str().unwrap();
        assert!(error.starts_with("something wrote into the connection"), "{result}");
        let running = stage.sandbox().await.status().await.unwrap().jobs_running;
        assert_eq!(running, 0, "{forged}");
    }
}

#[tokio::test]
async fn a_sandbox_without_python_is_reported_as_such() {
    let stage = stage();
    stage.call(&TerminalTool, json!({"command": "export PATH=/nowhere"})).await;
    let result = run(&stage, "print(1)").await;
    assert!(result["error"].as_str().unwrap().contains("no python3 in the sandbox"), "{result}");
}

#[tokio::test]
async fn a_process_left_behind_does_not_hold_the_script_back() {
    let stage = stage();
    let mark = marker();
    let code = format!("import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\nprint('done')");
    let result = run(&stage, &code).await;
    assert_eq!(reported(&result), ("success", "done\n"));
}

/// Prints what a call from a script costs.
#[tokio::test]
async fn two_hundred_calls_are_answered() {
    let stage = stage().with_limits(|limits| limits.code_tool_calls = 200);
    std::fs::write(stage.start_dir().join("f"), "text\n").unwrap();
    let code = r#"
import time
from vestal_tools import read_file, terminal
def each(call):
    times = []
    for n in range(100):
        began = time.monotonic(); call(n); times.append(time.monotonic() - began)
    return sorted(times)[50] * 1000
print(f"{each(lambda n: read_file('f', offset=1, limit=n + 1)):.2f} {each(lambda n: terminal('true')):.2f}")
"#;
    let began = Instant::now();
    let result = run(&stage, code).await;
    assert_eq!(
        (reported(&result).0, &result["tool_calls_made"]),
        ("success", &json!(200)),
        "{result}"
    );
    println!(
        "ms per call, p50 (read_file, terminal): {} in {:?}",
        reported(&result).1.trim(),
        began.elapsed()
    );
}
