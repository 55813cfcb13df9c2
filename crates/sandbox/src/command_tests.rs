//! What a command is checked for and what it shows.

use super::*;

#[test]
fn debug_output_shows_no_value_and_no_input() {
    let command = Command::shell("deploy")
        .env([("BASE", "base-value")])
        .secret_env("TOKEN", "secret-value")
        .stdin(CommandInput::Bytes(b"input-value".to_vec()));
    let shown = format!("{command:?}");
    assert!(shown.contains("TOKEN") && shown.contains("BASE"), "{shown}");
    assert!(!shown.contains("value"), "{shown}");
}

#[test]
fn job_ids_sort_by_time_and_differ() {
    let first = new_job_id();
    let mut later = new_job_id();
    while later.as_str()[..12] == first.as_str()[..12] {
        assert_ne!(first, later);
        later = new_job_id();
    }
    assert!(first < later);
    assert_eq!(first.as_str().len(), 22);
}

#[test]
fn what_cannot_be_run_is_refused_before_it_is_sent() {
    let refused = |command: Command| command.prepare(OutputDelivery::Lossy).err();
    let none: [&str; 0] = [];
    assert_eq!(refused(Command::argv(none)), Some(InvalidCommand::EmptyArgv));
    assert_eq!(refused(Command::argv(["a", "b\0c"])), Some(InvalidCommand::Nul("an argument")));
    assert_eq!(refused(Command::shell("x").session("")), Some(InvalidCommand::SessionName));
    assert_eq!(
        refused(Command::shell("x").session("s".repeat(MAX_SESSION_NAME + 1))),
        Some(InvalidCommand::SessionName)
    );
    assert_eq!(
        refused(Command::shell("x").secret_env("A=B", "c")),
        Some(InvalidCommand::EnvName("A=B".to_owned()))
    );
    assert_eq!(
        refused(Command::shell("x").workdir("/a\0")),
        Some(InvalidCommand::Nul("a directory"))
    );
    assert_eq!(refused(Command::shell("x").session("main").workdir("/tmp")), None);
}

#[test]
fn text_that_is_too_long_for_a_message_is_streamed() {
    let text = vec![b'#'; MAX_INLINE_TEXT + 1];
    let prepared = Command::shell(text.clone()).prepare(OutputDelivery::Lossy).unwrap();
    assert_eq!(prepared.start.command, vestal_wire::JobCommand::Shell(ShellText::Streamed));
    assert_eq!(prepared.text, Some(text));
}
