//! `vestal run`.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use crate::support::{ProgramFixture, TEST_TIMEOUT, finish, is_alive};

#[test]
fn a_second_run_finds_the_same_place() {
    let fixture = ProgramFixture::new();
    let first = fixture.run("echo one >> visits; cat visits").exits(0);
    assert_eq!(first.text(), "one\n");
    let second = fixture.run("echo two >> visits; cat visits").exits(0);
    assert_eq!(second.text(), "one\ntwo\n");
    let ps = fixture.vestal(["ps", "--json"]).json();
    assert_eq!(ps.as_array().unwrap().len(), 1);
    assert_eq!(ps[0]["generation"], 1);
}

#[test]
fn the_word_about_isolation_comes_once_and_not_into_the_output() {
    let fixture = ProgramFixture::new();
    let first = fixture.run("echo out").exits(0);
    assert_eq!(first.text(), "out\n");
    assert!(first.stderr.contains("without isolation"), "{first:?}");
    assert_eq!(fixture.run("echo out").exits(0).stderr, "");
}

#[test]
fn the_exit_code_is_the_commands() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    fixture.run("exit 3").exits(3);
    fixture.run("kill -9 $$").exits(137);
    fixture.vestal(["run", "--", "sh", "-c", "exit 42"]).exits(42);
    fixture.run("no-such-program").exits(127);
}

#[test]
fn variables_that_are_given_are_the_commands_alone_and_are_not_saved() {
    let fixture = ProgramFixture::new();
    let mut command =
        fixture.command(["run", "-e", "TOKEN", "-e", "MODE=a=b", "echo $TOKEN $MODE; export MODE"]);
    let given = finish(command.env("TOKEN", "secret").spawn().unwrap()).exits(0);
    assert_eq!(given.text(), "secret a=b\n");
    assert_eq!(fixture.run("echo ${TOKEN-none} ${MODE-none}").exits(0).text(), "none none\n");
    let absent = fixture.vestal(["run", "--env", "NOT_SET", "true"]).exits(2);
    assert!(absent.stderr.contains("NOT_SET is not set in your environment"), "{absent:?}");
    fixture.vestal(["run", "-e", "=x", "true"]).exits(125);
}

#[test]
fn a_command_that_times_out_ends_with_124_and_leaves_no_process() {
    let fixture = ProgramFixture::new();
    let text = "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait";
    let outcome = fixture.vestal(["run", "--timeout", "0.5", text]).exits(124);
    assert!(outcome.stderr.contains("timed out after 0.5 s"), "{outcome:?}");
    let printed = outcome.text();
    assert_eq!(printed.lines().count(), 2);
    assert!(printed.lines().all(|pid| !is_alive(pid)), "{printed}");
}

#[test]
fn a_missing_workdir_ends_with_126_and_a_workdir_is_for_one_command_only() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal(["run", "--workdir", "/no/such/dir", "true"]).exits(126);
    assert!(outcome.stderr.contains("/no/such/dir"), "{outcome:?}");
    let elsewhere = fixture.vestal(["run", "-w", "/usr", "pwd"]).exits(0);
    assert_eq!(elsewhere.text(), "/usr\n");
    assert_eq!(fixture.run("pwd").text().trim(), fixture.work().to_str().unwrap());
}

#[test]
fn what_vestal_itself_cannot_do_ends_with_125() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal(["run", "-b", "dokcer", "true"]).exits(2);
    assert!(outcome.stderr.contains("dokcer"), "{outcome:?}");
    assert!(outcome.stderr.contains("terminal.backend"), "{outcome:?}");
    assert!(outcome.stderr.contains("(-b)") && !outcome.stderr.contains("--set"), "{outcome:?}");
    assert_eq!(fixture.tasks(), [""; 0]);
}

#[test]
fn the_root_of_the_filesystem_is_refused_as_a_workspace_and_nothing_is_noted() {
    let fixture = ProgramFixture::new();
    let mut command = fixture.command(["run", "-b", "native", "--mount-cwd", "true"]);
    let outcome = finish(command.current_dir("/").spawn().unwrap()).exits(125);
    let printed = "/ cannot be mounted: it is the root of the filesystem; start in a project";
    assert!(outcome.stderr.contains(printed), "{outcome:?}");
    let noted = fs::read_dir(fixture.home().join("mounted")).into_iter().flatten();
    let noted: Vec<_> = noted.map(|entry| entry.unwrap().file_name()).collect();
    assert!(noted.iter().all(|name| name == "seeded"), "{noted:?}");
    assert_eq!(fixture.tasks(), [""; 0]);
}

#[test]
fn one_argument_is_shell_text_and_several_are_one_argv() {
    let fixture = ProgramFixture::new();
    assert_eq!(fixture.run("echo $((6 * 7))").text(), "42\n");
    let argv = fixture.vestal(["run", "printf", "%s|", "a b", "$HOME", "*", "-p", "--"]).exits(0);
    assert_eq!(argv.text(), "a b|$HOME|*|-p|--|");
}

#[test]
fn sessions_keep_state_and_do_not_see_each_other() {
    let fixture = ProgramFixture::new();
    fixture.run("cd /usr; export A=1; f() { echo f; }").exits(0);
    assert_eq!(fixture.run("pwd; echo $A; f").text(), "/usr\n1\nf\n");
    let other = fixture.vestal(["run", "--session", "other", "pwd; echo [$A]"]).exits(0);
    assert_eq!(other.text(), format!("{}\n[]\n", fixture.work().display()));
    fixture.vestal(["run", "--session", "none", "cd /; export A=2"]).exits(0);
    assert_eq!(fixture.run("pwd; echo $A").text(), "/usr\n1\n");
}

#[test]
fn standard_output_and_standard_error_are_separate_and_exact() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.run(r"printf 'o\0\377\r\n'; printf 'e\n' >&2").exits(0);
    assert_eq!(outcome.stdout, b"o\0\xff\r\n");
    assert!(outcome.stderr.ends_with("e\n"), "{outcome:?}");
}

#[test]
fn five_mebibytes_of_anything_pass_through_unchanged() {
    let fixture = ProgramFixture::new();
    let mut bytes = vec![0; 5 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    let outcome = fixture.vestal_with(["run", "cat"], &bytes).exits(0);
    assert!(outcome.stdout == bytes, "{} bytes came back", outcome.stdout.len());
}

#[test]
fn input_that_is_not_read_does_not_keep_a_command_from_ending() {
    let fixture = ProgramFixture::new();
    let bytes = vec![b'x'; 8 << 20];
    fixture.vestal_with(["run", "head -c 3; exit 5"], &bytes).exits(5);
    let ignored = fixture.vestal_with(["run", "-n", "cat; echo end"], b"input").exits(0);
    assert_eq!(ignored.text(), "end\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let mut child = fixture.command(["run", "echo $$; yes"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut start = [0; 4096];
    stdout.read_exact(&mut start).unwrap();
    drop(stdout);
    let outcome = finish(child).exits(141);
    assert_eq!(outcome.stderr, "");
    let shown = String::from_utf8_lossy(&start);
    assert!(!is_alive(shown.lines().next().unwrap()));
}

#[test]
fn ten_mebibytes_of_shell_text_run_from_a_file_and_from_standard_input() {
    let fixture = ProgramFixture::new();
    let mut text = b"x=0\n".to_vec();
    let mut lines = 0;
    while text.len() < 10 << 20 {
        lines += 1;
        text.extend_from_slice(
            b"x=$((x + 1)) # a line of a script that is very long indeed, and then some\n: \"",
        );
        text.extend(std::iter::repeat_n(b'.', 4000));
        text.extend_from_slice(b"\"\n");
    }
    text.extend_from_slice(b"echo $x\n");
    let script = fixture.work().join("script");
    fs::write(&script, &text).unwrap();
    let from_file = fixture.vestal(["run", "--file", "script"]).exits(0);
    assert_eq!(from_file.text(), format!("{lines}\n"));
    let from_stdin = fixture.vestal_with(["run", "-"], &text).exits(0);
    assert_eq!(from_stdin.text(), format!("{lines}\n"));
    let missing = fixture.vestal(["run", "--file", "nowhere"]).exits(125);
    assert!(missing.stderr.contains("nowhere"), "{missing:?}");
}

#[test]
fn the_json_object_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    let made = fixture.vestal(["run", "--json", "echo out; echo err >&2; exit 2"]).exits(2);
    assert_eq!(made.json()["sandbox"]["attached"], false);
    let outcome =
        fixture.vestal(["run", "--json", "-w", "/usr", "echo out; echo err >&2; exit 2"]).exits(2);
    insta::assert_json_snapshot!(outcome.json(), {
        ".sandbox.id" => "[id]",
        ".job" => "[job]",
        ".duration_ms" => "[ms]",
    });
}

#[test]
fn json_tells_of_binary_output_timeouts_and_failures() {
    let fixture = ProgramFixture::new();
    let binary = fixture.vestal(["run", "--json", r"printf '\377a'"]).exits(0).json();
    assert_eq!(binary["stdout"], "\u{fffd}a");
    assert_eq!(binary["stdout_base64"], "/2E=");
    assert_eq!(binary["stderr_base64"], serde_json::Value::Null);
    let late = fixture.vestal(["run", "--json", "--timeout", "0.3", "echo early; sleep 100"]);
    let late = late.exits(124).json();
    assert_eq!(late["stdout"], "early\n");
    assert_eq!(late["exit_code"], 124);
    assert!(late["error"].as_str().unwrap().contains("timed out"));
    let nowhere = fixture.vestal(["run", "--json", "-w", "/nope", "true"]).exits(126).json();
    assert_eq!(nowhere["exit_code"], 126);
    assert!(nowhere["error"].as_str().unwrap().contains("/nope"));
    let failed = fixture.vestal(["run", "--json", "-b", "nope", "true"]).exits(2).json();
    assert_eq!(failed["sandbox"], serde_json::Value::Null);
}

#[test]
fn json_keeps_both_ends_of_long_output_and_counts_what_is_left_out() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal([
        "run",
        "--json",
        "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end",
    ]);
    let json = outcome.exits(0).json();
    let (shown, omitted) =
        (json["stdout"].as_str().unwrap(), json["stdout_omitted"].as_u64().unwrap());
    assert!(shown.starts_with("begin\nxxx") && shown.ends_with("xxx\nend\n"));
    assert!(shown.contains(&format!("[… {omitted} bytes omitted …]")));
    let marks = shown.matches('x').count() as u64;
    assert_eq!(marks + omitted, 3_000_000);
}

#[test]
fn a_foreground_command_ends_with_its_shell_not_with_what_it_left_behind() {
    let fixture = ProgramFixture::new();
    let begun = std::time::Instant::now();
    let outcome = fixture.run("sleep 1000 & echo $!").exits(0);
    assert!(begun.elapsed() < TEST_TIMEOUT);
    let pid = outcome.text().trim().to_owned();
    assert!(is_alive(&pid));
    fixture.vestal(["stop"]).exits(0);
    assert!(!is_alive(&pid));
}

#[test]
fn secrets_of_the_caller_do_not_reach_commands() {
    let fixture = ProgramFixture::new();
    let mut command = fixture.command(["run", "echo [$OPENAI_API_KEY] [$PLAIN]"]);
    command.env("OPENAI_API_KEY", "sk-secret").env("PLAIN", "kept").stdin(Stdio::null());
    assert_eq!(finish(command.spawn().unwrap()).exits(0).text(), "[] [kept]\n");
}

#[test]
fn tasks_have_sandboxes_of_their_own() {
    let fixture = ProgramFixture::new();
    let odd = "a/b: ü";
    fixture.vestal(["run", "-t", odd, "export A=odd"]).exits(0);
    fixture.vestal(["run", "-t", "web", "export A=web"]).exits(0);
    assert_eq!(fixture.vestal(["run", "-t", odd, "echo $A"]).text(), "odd\n");
    assert_eq!(fixture.vestal(["run", "-t", "web", "echo $A"]).text(), "web\n");
    assert_eq!(fixture.tasks().len(), 2);
    fixture.vestal(["run", "-t", "", "true"]).exits(2);
}
