//! What `--json` prints, to the byte: which members there are, in which order, and what is null. Only values that differ from run to
//! run are masked. Other programs read this output, so a change here is a change of `docs/compatibility.md`.

mod agent;
mod board;
mod gateway;
mod sandboxes;
mod schedules;
mod settings;

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::support::{ProgramFixture, finish};

/// Members whose values differ from run to run, or from machine to machine.
const VARYING: &[&str] = &[
    "at",
    "author",
    "boot",
    "bytes",
    "claim_expires",
    "claimed_at",
    "completed_at",
    "context",
    "conversation",
    "cpu_ms",
    "created_at",
    "created_by",
    "default_workdir_host",
    "duration_ms",
    "ended_at",
    "expires",
    "expires_at",
    "fetched_at",
    "files",
    "guest_memory_bytes",
    "host",
    "idle_seconds",
    "incarnation",
    "input_tokens",
    "last_heartbeat_at",
    "last_run_at",
    "last_prompt_tokens",
    "last_used_at",
    "log_bytes",
    "memory_bytes",
    "now",
    "oldest_ready_age_seconds",
    "owner",
    "pid",
    "pid_start",
    "process",
    "processes",
    "program",
    "session_id",
    "size",
    "start",
    "started_at",
    "took_ms",
    "total_tokens",
    "up_seconds",
    "updated_at",
    "uploaded_by",
    "worker_pid",
    "workspace_host",
];

/// Calls of the program and what they printed, as far as it is the same each time.
struct Transcript<'w> {
    fixture: &'w ProgramFixture,
    variables: Vec<(&'static str, String)>,
    /// Names for what is different each time, such as ids.
    names: Vec<(String, String)>,
    text: String,
}

impl<'w> Transcript<'w> {
    fn new(fixture: &'w ProgramFixture) -> Self {
        let root = fixture.home().parent().unwrap().canonicalize().unwrap().display().to_string();
        Self {
            fixture,
            variables: Vec::new(),
            names: vec![(root, "[root]".to_owned())],
            text: String::new(),
        }
    }

    /// Has a value that is different each time shown by a name.
    fn name(&mut self, value: &Value, name: &str) -> String {
        let value = value.as_str().unwrap().to_owned();
        self.names.push((value.clone(), format!("[{name}]")));
        value
    }

    /// Calls the program with `--json` and notes what it prints.
    #[track_caller]
    fn call(&mut self, args: &[&str]) -> Value {
        self.call_exiting(args, 0)
    }

    /// As [`Transcript::call`], where another exit code is expected.
    #[track_caller]
    fn call_exiting(&mut self, args: &[&str], code: i32) -> Value {
        let printed = self.ask(args, code);
        let named = |text: &str| {
            self.names.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, name))
        };
        let shown = format!("$ {}\n{}", named(&args.join(" ")), masked(&named(&printed)));
        writeln!(self.text, "{shown}").unwrap();
        serde_json::from_str(&printed).unwrap_or_default()
    }

    /// As [`Transcript::call`], and notes nothing: what is printed has no name yet.
    #[track_caller]
    fn learn(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ask(args, 0)).unwrap()
    }

    /// Calls the program. `--json` comes last unless it is among the arguments.
    #[track_caller]
    fn ask(&self, args: &[&str], code: i32) -> String {
        let flag = if args.contains(&"--json") { &[][..] } else { &["--json"] };
        let mut command: Command = self.fixture.command([args, flag].concat());
        command.envs(self.variables.clone());
        finish(command.spawn().unwrap()).exits(code).text()
    }
}

/// Returns JSON as it was printed, with `~` for strings and `0` for numbers that vary. Members stay in their order.
fn masked(json: &str) -> String {
    let mut out = String::new();
    let mut key = String::new();
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '"' => string_end(rest),
            '-' | '0'..='9' => {
                rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len())
            }
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let is_key = c == '"' && after.trim_start().starts_with(':');
        let varies = VARYING.contains(&key.as_str());
        if is_key {
            token.trim_matches('"').clone_into(&mut key);
        }
        match c {
            // The id of a job that has no name.
            '"' if !is_key && token.starts_with("\"j-") => out.push_str("\"~\""),
            // `now` is a time, or the name of a backend.
            '"' if !is_key && varies && key != "now" => out.push_str("\"~\""),
            '-' | '0'..='9' if varies => out.push('0'),
            _ => out.push_str(token),
        }
        rest = after;
    }
    out
}

/// Returns where the string ends that the text begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn only_values_that_vary_are_masked() {
    let json = r#"[{"pid":12,"id":"a\"b","at":"now","n":-1.5,"pid_start":null}]"#;
    assert_eq!(masked(json), r#"[{"pid":0,"id":"a\"b","at":"~","n":-1.5,"pid_start":null}]"#);
}
