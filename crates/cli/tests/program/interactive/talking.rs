//! Typing, streaming, tools, resizing, pasting.

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedReply, ScriptedToolCall};
use vestal_testkit::files::Fifo;
use vestal_testkit::wait_until;

use super::fixture::{ChatTerminal, ENTER, columns};
use crate::chat::fixture::{ChatFixture, terminal};

const RICH: &str = "\
# Findings

The build fails because of **one** line in `src/main.rs`:

```rust
fn main() {
    println!(\"hello\");
}
```

| file | lines |
|------|------:|
| main.rs | 12 |
| a/rather/long/path/to/a/file.rs | 1200 |

1. read it
2. mend it, which is a step that takes a few more words to describe than fit on one line of a narrow terminal
   - and test it

> Said before.
";

#[test]
fn what_is_typed_is_seen_and_answered() {
    let chat = ChatFixture::replies([ScriptedReply::text("Hello to you, too.")]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("hello there");
    tty.sees("Hello to you, too.");
    tty.sees_prompt();
    assert_eq!(tty.leaves(), 0);
    let printed = chat.model.requests()[0].last_user_text().unwrap();
    assert_eq!(printed, "hello there");
}

#[test]
fn an_answer_asked_for_in_quiet_cannot_command_the_terminal() {
    let chat = ChatFixture::replies([ScriptedReply::text("before \x1b[2Jafter")]);
    let mut tty = ChatTerminal::take_with(&chat, &["chat", "-Q", "-q", "hello"], columns(80));
    assert_eq!(tty.ends(), 0);
    let written = String::from_utf8_lossy(&tty.pty.written()).into_owned();
    assert!(written.contains("before \\x1b[2Jafter"), "{written:?}");
    assert!(!written.contains("\x1b[2J"), "{written:?}");
}

#[test]
fn an_answer_is_seen_as_it_comes() {
    let reply =
        ScriptedReply::text("First part, and here is the second.").chunked(12).hold_after(1);
    let chat = ChatFixture::new(Script::replies([reply]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("go");
    tty.sees("First part,");
    chat.model.release();
    tty.sees("and here is the second.");
    tty.sees_rest();
    assert_eq!(tty.count("First part"), 1, "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_tool_at_work_is_seen_and_typing_goes_on_meanwhile() {
    let chat = ChatFixture::replies([
        terminal("echo tick; cat go; echo tock"),
        ScriptedReply::text("Done."),
    ]);
    let go = Fifo::create(chat.fixture.work().join("go"));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("work");
    tty.sees("tick");
    tty.types("a draft");
    tty.sees("a draft");
    go.write("");
    tty.sees("Done.");
    tty.sees("✓ terminal");
    tty.sees("a draft");
    tty.types("\x15");
    tty.sees_no_more("a draft");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn messages_sent_while_the_model_works_reach_it() {
    let chat = ChatFixture::replies([terminal("cat go"), ScriptedReply::text("As you wish.")]);
    let go = Fifo::create(chat.fixture.work().join("go"));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("work");
    tty.sees("cat go");
    tty.submits("use the other file");
    // It was taken when it is in the input no more.
    tty.sees_input();
    go.write("");
    tty.sees("As you wish.");
    let requests = chat.model.requests();
    let heard = serde_json::to_string(requests[1].messages()).unwrap();
    assert!(heard.contains("use the other file"), "{heard}");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_window_that_changes_its_size_shows_everything_once() {
    let words: Vec<String> = (0..400).map(|number| format!("word{number:03}")).collect();
    let text = words.chunks(10).map(|line| line.join(" ")).collect::<Vec<_>>().join("\n\n");
    let reply = ScriptedReply::text(text).chunked(100).hold_after(8);
    let chat = ChatFixture::new(Script::replies([reply]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("go");
    tty.sees("word050");
    for width in [60, 140, 70] {
        let before = tty.pty.written().len();
        tty.pty.resize(columns(width)).unwrap();
        wait_until("it is drawn anew", || tty.pty.written().len() > before);
        tty.types("x");
    }
    tty.sees("xxx");
    chat.model.release();
    tty.sees("word399");
    // Not in the middle of a change: the status is what is drawn last.
    tty.sees_rest_with("xxx");
    let all = tty.copied();
    for word in &words {
        assert_eq!(all.matches(word.as_str()).count(), 1, "{word}: {all}");
    }
    // The input and the status are there once, too: nothing was left behind.
    assert_eq!(all.matches("xxx").count(), 1, "{all}");
    tty.types("\x15");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn ten_thousand_pasted_lines_are_sent_whole() {
    let chat = ChatFixture::replies([ScriptedReply::text("That was long.")]);
    let mut tty = ChatTerminal::take(&chat);
    let lines: Vec<String> = (0..10_000).map(|number| format!("line {number}\n")).collect();
    let lines = lines.concat();
    tty.types("look: ");
    tty.pty.paste(&lines).unwrap();
    tty.sees("10,000 lines");
    tty.types(ENTER);
    tty.sees("That was long.");
    let printed = chat.model.requests()[0].last_user_text().unwrap();
    assert!(printed.starts_with("look: line 0\nline 1\n"));
    assert!(printed.trim_end().ends_with("line 9999"));
    assert_eq!(printed.trim_end().lines().count(), 10_000);
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn the_screen_fits_every_width() {
    for width in [60, 80, 140] {
        let calls = [
            ScriptedToolCall::new("terminal", json!({"command": "printf 'one\\ntwo\\nthree\\n'"})),
            ScriptedToolCall::new(
                "write_file",
                json!({"path": "notes.txt", "content": "first\nsecond\n"}),
            ),
        ];
        let chat = ChatFixture::replies([
            ScriptedReply::tool_calls(calls).with_text("Let me look."),
            ScriptedReply::text(RICH),
        ]);
        let mut tty = ChatTerminal::take_with(&chat, &["chat"], columns(width));
        tty.sees_prompt();
        tty.submits("why does the build fail?");
        tty.sees("Said before.");
        tty.sees_rest();
        for line in tty.all().lines() {
            assert!(line.chars().count() <= usize::from(width), "{line}");
        }
        // As it is copied: a path of this machine may be folded anywhere.
        let shown = steady(&tty.copied(), &chat);
        insta::assert_snapshot!(format!("the_screen_at_{width}_columns"), shown);
        assert_eq!(tty.leaves(), 0);
    }
}

/// Takes out what is different every time.
fn steady(shown: &str, chat: &ChatFixture) -> String {
    let work = chat.fixture.work().display().to_string();
    let mut steady = String::new();
    for line in shown.replace(&work, "WORK").lines() {
        let mut rest = line;
        // Times in brackets: (12ms), (1.2s).
        while let Some(at) = rest.find('(') {
            let (before, after) = rest.split_at(at + 1);
            steady.push_str(before);
            rest = after;
            if let Some(end) = after.find(')')
                && after[..end].ends_with('s')
                && after[..end].starts_with(|c: char| c.is_ascii_digit())
            {
                steady.push_str("TIME");
                rest = &after[end..];
            }
        }
        steady.push_str(rest);
        steady.push('\n');
    }
    steady
}
