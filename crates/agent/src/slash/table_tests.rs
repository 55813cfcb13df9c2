use std::collections::BTreeSet;

use super::*;

#[test]
fn every_command_that_people_know_is_there() {
    for name in [
        "new",
        "reset",
        "quit",
        "stop",
        "retry",
        "undo",
        "branch",
        "title",
        "resume",
        "sessions",
        "compress",
        "model",
        "reasoning",
        "plan",
        "yolo",
        "approvals",
        "tools",
        "memory",
        "skills",
        "mcp",
        "sandbox",
        "jobs",
        "kanban",
        "profile",
        "copy",
        "save",
        "status",
        "usage",
        "config",
        "help",
    ] {
        assert!(find(name).is_some(), "{name}");
    }
}

#[test]
fn no_two_commands_share_a_name() {
    let mut names = BTreeSet::new();
    for name in COMMANDS.iter().flat_map(SlashCommand::names) {
        assert!(names.insert(name), "{name}");
    }
}

#[test]
fn what_acts_while_the_model_works_changes_nothing_it_works_with() {
    let at_once: BTreeSet<&str> = COMMANDS
        .iter()
        .filter(|command| command.timing == CommandTiming::AtOnce)
        .map(|command| command.name)
        .collect();
    let known = [
        "approvals",
        "copy",
        "help",
        "jobs",
        "plan",
        "quit",
        "save",
        "status",
        "stop",
        "usage",
        "yolo",
    ];
    assert_eq!(at_once, BTreeSet::from(known));
}

#[test]
fn a_command_that_is_a_verb_leaves_its_words_to_the_verb() {
    for command in COMMANDS {
        let is_verb = matches!(command.kind, CommandKind::Verb(_));
        let leaves = command.words.iter().any(|word| word.value == Some(ArgumentKind::Verb));
        assert_eq!(is_verb, leaves, "{}", command.name);
    }
}
