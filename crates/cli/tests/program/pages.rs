//! The tutorial and the how-tos, as they are typed.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_scripted_model::{Model, ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::pages::{console_commands, marked_examples};

use crate::support::{ProgramFixture, finish};

/// The addresses that the pages name: of a model, and of a server in a sandbox.
const DOCUMENTED_MODEL: &str = "http://127.0.0.1:8000/v1";
const DOCUMENTED_PORT: &str = "4321";

/// Begins the output of each command.
const STEP: &str = "@@step ";

/// A model that does what the pages ask it to do.
fn model() -> Script {
    let does = |asked: &str, command: &str, says: &'static str| {
        [
            ReplyRule::when_user_contains(asked)
                .after_tool_results(0)
                .reply(ScriptedReply::tool_call("terminal", json!({ "command": command }))),
            ReplyRule::when_user_contains(asked)
                .after_tool_results(1)
                .reply(ScriptedReply::text(says)),
        ]
    };
    let rules = [
        does("how many lines", "wc -l < /workspace/visits", "visits has two lines."),
        does("remove the last line", "sed -i '$d' /workspace/visits", "The last line is gone."),
        does("write a haiku", "echo 'a lamp still burning' > haiku.txt", "I wrote haiku.txt."),
    ];
    let done = ReplyRule::when_user_contains("Say hello in a file").after_tool_results(0).reply(
        ScriptedReply::tool_call("terminal", json!({ "command": "echo hello > hello.txt" })),
    );
    let reported = ReplyRule::when_user_contains("Say hello in a file")
        .after_tool_results(1)
        .reply(ScriptedReply::tool_call(
            "kanban_complete",
            json!({ "summary": "hello.txt says hello" }),
        ));
    let over = ReplyRule::when_user_contains("Say hello in a file")
        .after_any_tool_results()
        .reply(ScriptedReply::text("Done."));
    Script::rules(rules.into_iter().flatten().chain([done, reported, over]))
        .models([Model::new("some-model")])
}

/// Returns a port that nothing listens on.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Types every marked example of a page, in one shell, and compares what is printed.
fn type_page(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = fs::read_to_string(path).unwrap();
    let examples = marked_examples(&page);
    assert!(!examples.is_empty(), "no example of {name} is run");
    let fixture = ProgramFixture::native();
    let model = ScriptedModel::start(model());
    let programs = fixture.user().join("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vestal"), programs.join("vestal")).unwrap();

    let mut commands = Vec::new();
    let mut script = "exec 2>&1 </dev/null\n".to_owned();
    for (number, example) in examples.iter().enumerate() {
        if example.language == "console" {
            commands.extend(console_commands(&example.text));
            continue;
        }
        // A program, which is run when its turn comes.
        let file = fixture.work().join(format!("example-{number}"));
        fs::write(&file, &example.text).unwrap();
        let interpreter = match example.language.as_str() {
            "python" => "python3",
            "sh" => "bash -e",
            other => panic!("{name}: no example in {other} can be run"),
        };
        let typed = format!("{interpreter} {}", file.display());
        commands.extend(console_commands(&format!("$ {typed}")));
    }
    for (number, command) in commands.iter().enumerate() {
        script.extend([format!(
            "printf '\\n{STEP}{number}\\n'\n{}\ncode=$?; [ $code -eq 0 ] || {{ echo \"exit code $code\"; exit $code; }}\n",
            command.typed
        )]);
    }
    let script = script
        .replace(DOCUMENTED_MODEL, &model.base_url())
        .replace(DOCUMENTED_PORT, &free_port().to_string());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", programs.display());
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .env_clear()
        .envs(fixture.environment())
        .env("PATH", path)
        .current_dir(fixture.work())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let outcome = finish(shell.spawn().unwrap());
    let text = outcome.text();
    let outputs: Vec<&str> = text
        .split(&format!("\n{STEP}"))
        .skip(1)
        .map(|part| part.split_once('\n').map_or("", |(_, output)| output))
        .collect();
    for (command, output) in commands.iter().zip(&outputs) {
        assert!(command.is_answered_by(output), "{name}: {command:#?} printed\n{output}");
    }
    assert_eq!((outcome.code, outputs.len()), (0, commands.len()), "{name}:\n{text}");
}

#[test]
fn the_tutorial_works_as_it_is_typed() {
    type_page("tutorial.md");
}

#[test]
fn the_how_tos_work_as_they_are_typed() {
    for name in ["own-agent", "dev-server", "review", "move", "overnight"] {
        type_page(&format!("howto/{name}.md"));
    }
}
