use super::*;
use crate::keys;
use crate::testing::TestHome;

fn append_in(home: &TestHome, name: &str, item: &str) -> Result<AppendOutcome, SetError> {
    append(&home.settings(&[], &[]), name, item)
}

fn allowed(home: &TestHome) -> Vec<String> {
    let list = home.settings(&[], &[]).get(&keys::COMMAND_ALLOWLIST).expect("readable").value;
    list.iter().map(str::to_owned).collect()
}

#[test]
fn an_item_is_added_however_the_list_is_written_and_the_rest_stays() {
    for (before, after) in [
        ("", "command_allowlist: [\"git push\"]\n"),
        ("# mine\n", "# mine\ncommand_allowlist: [\"git push\"]\n"),
        ("command_allowlist: # none yet\n", "command_allowlist: [\"git push\"] # none yet\n"),
        ("command_allowlist: []\n", "command_allowlist: [\"git push\"]\n"),
        ("command_allowlist: [ls] # a\n", "command_allowlist: [ls, \"git push\"] # a\n"),
        (
            "command_allowlist:\n  # first\n  - ls # one\n\n  # second\n  - cat *  # two\n# end\nmodel: x\n",
            "command_allowlist:\n  # first\n  - ls # one\n\n  # second\n  - cat *  # two\n  - \"git push\"\n# end\nmodel: x\n",
        ),
        ("command_allowlist:\n- ls", "command_allowlist:\n- ls\n- \"git push\""),
        (
            "a: 1\r\ncommand_allowlist:\r\n- ls\r\n",
            "a: 1\r\ncommand_allowlist:\r\n- ls\r\n- \"git push\"\r\n",
        ),
    ] {
        let home = TestHome::with_config(before);
        let outcome = append_in(&home, "command_allowlist", "git push").expect(before);
        assert!(outcome.added);
        assert_eq!(home.read_config(), after, "{before:?}");
        assert_eq!(allowed(&home).last().map(String::as_str), Some("git push"));
    }
    let home = TestHome::with_config("approvals: {deny: [a]}\n");
    append_in(&home, "approvals.deny", "rm -rf *").expect("added");
    assert_eq!(home.read_config(), "approvals: {deny: [a, \"rm -rf *\"]}\n");
}

#[test]
fn an_item_that_is_there_is_not_added_again() {
    let text = "command_allowlist:\n  - ls\n  - 'git push'\n";
    let home = TestHome::with_config(text);
    assert!(!append_in(&home, "command_allowlist", "git push").expect("fine").added);
    assert_eq!(home.read_config(), text);
}

#[test]
fn text_that_yaml_would_take_for_something_else_is_read_back_as_it_was() {
    let home = TestHome::new();
    let odd =
        ["~", "true", "12", "a: b", "# x", "- y", "echo \"q\"\n'r'", "*a", "&b", "ä", "{}", "[x"];
    for item in odd {
        append_in(&home, "command_allowlist", item).expect(item);
    }
    assert_eq!(allowed(&home), odd);
}

#[test]
fn what_cannot_be_added_leaves_the_file_alone() {
    for (text, name, item) in [
        ("command_allowlist: ls\n", "command_allowlist", "x"),
        ("command_allowlist: &a [ls]\n", "command_allowlist", "x"),
        ("command_allowlist: [ls]\n", "command_allowlist", " "),
        ("toolsets: [all]\n", "toolsets", "no name"),
        ("terminal: {timeout: 5}\n", "terminal.timeout", "6"),
        ("terminal: {timeout: 5}\n", "terminal.env", "6"),
        ("terminal: {timeout: 5}\n", "terminal.nothing", "6"),
        ("terminal: [\n", "command_allowlist", "x"),
    ] {
        let home = TestHome::with_config(text);
        assert!(append_in(&home, name, item).is_err(), "{text} {name} {item}");
        assert_eq!(home.read_config(), text);
    }
}

#[test]
fn items_added_at_the_same_time_are_all_there() {
    let home = TestHome::with_config("command_allowlist:\n  - first # kept\n");
    std::thread::scope(|scope| {
        for at in 0..16 {
            let home = &home;
            scope.spawn(move || {
                append_in(home, "command_allowlist", &format!("command {}", at / 2)).expect("added")
            });
        }
    });
    let mut items = allowed(&home);
    items.sort();
    let mut expected: Vec<_> = (0..8).map(|at| format!("command {at}")).collect();
    expected.push("first".to_owned());
    assert_eq!(items, expected);
    assert!(home.read_config().contains("- first # kept\n"));
}

#[test]
fn an_item_is_taken_out_and_the_others_stay() {
    let home = TestHome::with_config("# mine\nskills:\n  disabled: [a, b, c]  # these\n");
    let take = |item: &str| take_out(&home.settings(&[], &[]), "skills.disabled", item);
    assert!(take("b").expect("taken").taken);
    assert!(!take("b").expect("gone").taken);
    let left = home.settings(&[], &[]).get(&crate::keys::SKILLS_DISABLED).expect("read").value;
    assert_eq!(left.iter().collect::<Vec<_>>(), ["a", "c"]);
    assert!(home.read_config().starts_with("# mine\n"), "{}", home.read_config());
    assert!(take("a").expect("taken").taken && take("c").expect("taken").taken);
    assert!(matches!(
        take_out(&home.settings(&[], &[]), "agent.max_turns", "x"),
        Err(SetError::NoList { .. })
    ));
}

#[test]
fn nothing_is_taken_out_of_a_file_that_is_not_there() {
    let home = TestHome::new();
    let outcome = take_out(&home.settings(&[], &[]), "skills.disabled", "a").expect("fine");
    assert!(!outcome.taken);
    assert!(!home.home().config_file().exists());
}
