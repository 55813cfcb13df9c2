//! `vestal run`.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use crate::support::{PATIENCE, World, finish, is_alive};

#[test]
fn a_second_run_finds_the_same_place() {
    let world = World::new();
    let first = world.run("echo one >> visits; cat visits").exits(0);
    assert_eq!(first.text(), "one\n");
    let second = world.run("echo two >> visits; cat visits").exits(0);
    assert_eq!(second.text(), "one\ntwo\n");
    let ps = world.vestal(["ps", "--json"]).json();
    assert_eq!(ps.as_array().unwrap().len(), 1);
    assert_eq!(ps[0]["generation"], 1);
}

#[test]
fn the_word_about_isolation_comes_once_and_not_into_the_output() {
    let world = World::new();
    let first = world.run("echo out").exits(0);
    assert_eq!(first.text(), "out\n");
    assert!(first.stderr.contains("without isolation"), "{first:?}");
    assert_eq!(world.run("echo out").exits(0).stderr, "");
}

#[test]
fn the_exit_code_is_the_commands() {
    let world = World::new();
    world.run("true").exits(0);
    world.run("exit 3").exits(3);
    world.run("kill -9 $$").exits(137);
    world.vestal(["run", "--", "sh", "-c", "exit 42"]).exits(42);
    world.run("no-such-program").exits(127);
}

#[test]
fn a_command_that_times_out_ends_with_124_and_leaves_no_process() {
    let world = World::new();
    let text = "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait";
    let outcome = world.vestal(["run", "--timeout", "0.5", text]).exits(124);
    assert!(outcome.stderr.contains("timed out after 0.5 s"), "{outcome:?}");
    let printed = outcome.text();
    assert_eq!(printed.lines().count(), 2);
    assert!(printed.lines().all(|pid| !is_alive(pid)), "{printed}");
}

#[test]
fn a_missing_workdir_ends_with_126_and_a_workdir_is_for_one_command_only() {
    let world = World::new();
    let outcome = world.vestal(["run", "--workdir", "/no/such/dir", "true"]).exits(126);
    assert!(outcome.stderr.contains("/no/such/dir"), "{outcome:?}");
    let elsewhere = world.vestal(["run", "-w", "/usr", "pwd"]).exits(0);
    assert_eq!(elsewhere.text(), "/usr\n");
    assert_eq!(world.run("pwd").text().trim(), world.work().to_str().unwrap());
}

#[test]
fn what_vestal_itself_cannot_do_ends_with_125() {
    let world = World::new();
    let outcome = world.vestal(["run", "-b", "dokcer", "true"]).exits(125);
    assert!(outcome.stderr.contains("dokcer"), "{outcome:?}");
    assert!(outcome.stderr.contains("terminal.backend"), "{outcome:?}");
    assert!(outcome.stderr.contains("(-b)") && !outcome.stderr.contains("--set"), "{outcome:?}");
    assert_eq!(world.tasks(), [""; 0]);
}

#[test]
fn the_root_of_the_filesystem_is_refused_as_a_workspace_and_nothing_is_noted() {
    let world = World::new();
    let mut command = world.command(["run", "-b", "native", "--mount-cwd", "true"]);
    let outcome = finish(command.current_dir("/").spawn().unwrap()).exits(125);
    let said = "/ cannot be mounted: it is the root of the filesystem; start in a project";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
    let noted = fs::read_dir(world.home().join("mounted")).into_iter().flatten();
    let noted: Vec<_> = noted.map(|entry| entry.unwrap().file_name()).collect();
    assert!(noted.iter().all(|name| name == "seeded"), "{noted:?}");
    assert_eq!(world.tasks(), [""; 0]);
}

#[test]
fn one_argument_is_shell_text_and_several_are_one_argv() {
    let world = World::new();
    assert_eq!(world.run("echo $((6 * 7))").text(), "42\n");
    let argv = world.vestal(["run", "printf", "%s|", "a b", "$HOME", "*", "-p", "--"]).exits(0);
    assert_eq!(argv.text(), "a b|$HOME|*|-p|--|");
}

#[test]
fn sessions_keep_state_and_do_not_see_each_other() {
    let world = World::new();
    world.run("cd /usr; export A=1; f() { echo f; }").exits(0);
    assert_eq!(world.run("pwd; echo $A; f").text(), "/usr\n1\nf\n");
    let other = world.vestal(["run", "--session", "other", "pwd; echo [$A]"]).exits(0);
    assert_eq!(other.text(), format!("{}\n[]\n", world.work().display()));
    world.vestal(["run", "--session", "none", "cd /; export A=2"]).exits(0);
    assert_eq!(world.run("pwd; echo $A").text(), "/usr\n1\n");
}

#[test]
fn standard_output_and_standard_error_are_separate_and_exact() {
    let world = World::new();
    let outcome = world.run(r"printf 'o\0\377\r\n'; printf 'e\n' >&2").exits(0);
    assert_eq!(outcome.stdout, b"o\0\xff\r\n");
    assert!(outcome.stderr.ends_with("e\n"), "{outcome:?}");
}

#[test]
fn five_mebibytes_of_anything_pass_through_unchanged() {
    let world = World::new();
    let mut bytes = vec![0; 5 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    let outcome = world.vestal_with(["run", "cat"], &bytes).exits(0);
    assert!(outcome.stdout == bytes, "{} bytes came back", outcome.stdout.len());
}

#[test]
fn input_that_is_not_read_does_not_keep_a_command_from_ending() {
    let world = World::new();
    let bytes = vec![b'x'; 8 << 20];
    world.vestal_with(["run", "head -c 3; exit 5"], &bytes).exits(5);
    let ignored = world.vestal_with(["run", "-n", "cat; echo end"], b"input").exits(0);
    assert_eq!(ignored.text(), "end\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let world = World::new();
    world.run("true").exits(0);
    let mut child = world.command(["run", "echo $$; yes"]).spawn().unwrap();
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
    let world = World::new();
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
    let script = world.work().join("script");
    fs::write(&script, &text).unwrap();
    let from_file = world.vestal(["run", "--file", "script"]).exits(0);
    assert_eq!(from_file.text(), format!("{lines}\n"));
    let from_stdin = world.vestal_with(["run", "-"], &text).exits(0);
    assert_eq!(from_stdin.text(), format!("{lines}\n"));
    let missing = world.vestal(["run", "--file", "nowhere"]).exits(125);
    assert!(missing.stderr.contains("nowhere"), "{missing:?}");
}

#[test]
fn the_json_object_has_the_promised_shape() {
    let world = World::new();
    let made = world.vestal(["run", "--json", "echo out; echo err >&2; exit 2"]).exits(2);
    assert_eq!(made.json()["sandbox"]["attached"], false);
    let outcome =
        world.vestal(["run", "--json", "-w", "/usr", "echo out; echo err >&2; exit 2"]).exits(2);
    insta::assert_json_snapshot!(outcome.json(), {
        ".sandbox.id" => "[id]",
        ".job" => "[job]",
        ".duration_ms" => "[ms]",
    });
}

#[test]
fn json_tells_of_binary_output_timeouts_and_failures() {
    let world = World::new();
    let binary = world.vestal(["run", "--json", r"printf '\377a'"]).exits(0).json();
    assert_eq!(binary["stdout"], "\u{fffd}a");
    assert_eq!(binary["stdout_base64"], "/2E=");
    assert_eq!(binary["stderr_base64"], serde_json::Value::Null);
    let late = world.vestal(["run", "--json", "--timeout", "0.3", "echo early; sleep 100"]);
    let late = late.exits(124).json();
    assert_eq!(late["stdout"], "early\n");
    assert_eq!(late["exit_code"], 124);
    assert!(late["error"].as_str().unwrap().contains("timed out"));
    let nowhere = world.vestal(["run", "--json", "-w", "/nope", "true"]).exits(126).json();
    assert_eq!(nowhere["exit_code"], 126);
    assert!(nowhere["error"].as_str().unwrap().contains("/nope"));
    let failed = world.vestal(["run", "--json", "-b", "nope", "true"]).exits(125).json();
    assert_eq!(failed["sandbox"], serde_json::Value::Null);
}

#[test]
fn json_keeps_both_ends_of_long_output_and_counts_what_is_left_out() {
    let world = World::new();
    let outcome = world.vestal([
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
    let world = World::new();
    let begun = std::time::Instant::now();
    let outcome = world.run("sleep 1000 & echo $!").exits(0);
    assert!(begun.elapsed() < PATIENCE);
    let pid = outcome.text().trim().to_owned();
    assert!(is_alive(&pid));
    world.vestal(["stop"]).exits(0);
    assert!(!is_alive(&pid));
}

#[test]
fn secrets_of_the_caller_do_not_reach_commands() {
    let world = World::new();
    let mut command = world.command(["run", "echo [$OPENAI_API_KEY] [$PLAIN]"]);
    command.env("OPENAI_API_KEY", "sk-secret").env("PLAIN", "kept").stdin(Stdio::null());
    assert_eq!(finish(command.spawn().unwrap()).exits(0).text(), "[] [kept]\n");
}

#[test]
fn tasks_have_sandboxes_of_their_own() {
    let world = World::new();
    let odd = "a/b: ü";
    world.vestal(["run", "-t", odd, "export A=odd"]).exits(0);
    world.vestal(["run", "-t", "web", "export A=web"]).exits(0);
    assert_eq!(world.vestal(["run", "-t", odd, "echo $A"]).text(), "odd\n");
    assert_eq!(world.vestal(["run", "-t", "web", "echo $A"]).text(), "web\n");
    assert_eq!(world.tasks().len(), 2);
    world.vestal(["run", "-t", "", "true"]).exits(2);
}
