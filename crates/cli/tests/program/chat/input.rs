//! What is asked, and with what.

use std::fs;

use vestal_scripted_model::{Script, ScriptedReply};

use super::fixture::ChatFixture;
use crate::support::{ProgramFixture, ProgramOutcome};

/// Runs the program with this on standard input.
fn piped(chat: &ChatFixture, args: &[&str], input: &[u8]) -> ProgramOutcome {
    use std::io::Write as _;
    let mut command = chat.command(args);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    crate::support::finish(child)
}

fn printed(chat: &ChatFixture) -> Vec<String> {
    chat.model.requests().iter().map(|request| request.last_user_text().unwrap()).collect()
}

#[test]
fn the_question_comes_from_the_command_line_or_standard_input_or_both() {
    let chat = ChatFixture::new(Script::replies([
        ScriptedReply::text("1"),
        ScriptedReply::text("2"),
        ScriptedReply::text("3"),
    ]));
    piped(&chat, &["chat"], b"only piped\n").exits(0);
    piped(&chat, &["chat", "-q", "-"], b"named\n").exits(0);
    piped(&chat, &["chat", "-q", "review this:"], b"  fn main() {}\n").exits(0);
    assert_eq!(printed(&chat), ["only piped", "named", "review this:\n\n  fn main() {}"]);
}

#[test]
fn asking_nothing_is_wrong_usage_and_says_what_to_type() {
    let fixture = ProgramFixture::new();
    for args in [&["chat"][..], &["chat", "-q", " "]] {
        let outcome = fixture.vestal(args).exits(2);
        assert!(outcome.stderr.contains("vestal chat -q '"), "{outcome:?}");
    }
    fixture.vestal(["chat", "-q", "x", "-c", "-r", "y"]).exits(2);
    fixture.vestal(["chat", "-q", "x", "--max-turns", "0"]).exits(2);
}

#[test]
fn images_go_with_the_question_and_are_known_by_their_content() {
    let chat = ChatFixture::replies([ScriptedReply::text("A dot.")]);
    let dir = chat.fixture.work();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.extend([0; 32]);
    fs::write(dir.join("shot.jpg"), png).unwrap();
    let args = ["chat", "--image", "shot.jpg", "--image", "shot.jpg", "-q", "what is it?"];
    chat.vestal(args).exits(0);
    let requests = chat.model.requests();
    let message = requests[0].messages().last().unwrap().to_string();
    assert_eq!(message.matches("data:image/png;base64,iVBORw0KGgo").count(), 2, "{message}");
}

#[test]
fn what_is_no_image_is_wrong_usage_and_nobody_is_asked() {
    let chat = ChatFixture::replies([]);
    let dir = chat.fixture.work();
    fs::write(dir.join("text.png"), "just words").unwrap();
    fs::File::create(dir.join("huge.png")).unwrap().set_len(21 << 20).unwrap();
    for (file, why) in [
        ("text.png", "PNG, JPEG, GIF, WebP"),
        ("absent.png", "No such file"),
        (".", "is not a file"),
        ("huge.png", "is larger than the limit of"),
    ] {
        let outcome = chat.vestal(["chat", "--image", file, "-q", "x"]).exits(2);
        assert!(outcome.stderr.contains(why), "{outcome:?}");
    }
    assert_eq!(chat.model.requests().len(), 0);
}

#[test]
fn another_model_is_asked_by_name_and_toolsets_are_chosen() {
    let chat = ChatFixture::replies([ScriptedReply::text("Hi."), ScriptedReply::text("Hi.")]);
    chat.vestal(["chat", "-m", "custom:other", "-q", "x"]).exits(0);
    chat.vestal(["chat", "-m", "colons:are:fine", "--toolsets", "terminal", "-q", "x"]).exits(0);
    let requests = chat.model.requests();
    assert_eq!(requests[0].model(), "other");
    assert!(requests[0].tool_names().contains(&"read_file"));
    assert_eq!(requests[1].model(), "colons:are:fine");
    assert!(requests[1].tool_names().contains(&"terminal"));
    assert!(!requests[1].tool_names().contains(&"read_file"));
    let outcome = chat.vestal(["chat", "--toolsets", "terminl", "-q", "x"]).exits(2);
    assert!(outcome.stderr.contains("did you mean terminal?"), "{outcome:?}");
}

#[test]
fn a_file_that_is_mentioned_goes_with_the_question_and_one_that_is_not_there_is_reported() {
    let chat =
        ChatFixture::replies([ScriptedReply::text("Milk."), ScriptedReply::text("What notes?")]);
    std::fs::write(chat.fixture.work().join("notes.txt"), "buy milk\n").unwrap();
    let printed = |chat: &ChatFixture| {
        serde_json::to_string(chat.model.requests().last().unwrap().messages()).unwrap()
    };
    chat.ask("what do @notes.txt say?").exits(0);
    assert!(printed(&chat).contains("buy milk"), "{}", printed(&chat));
    let outcome = chat.ask("what do @other.txt say?").exits(0);
    assert!(outcome.stderr.contains("@other.txt was not attached"), "{}", outcome.stderr);
    assert!(!printed(&chat).contains("attached by the user"), "{}", printed(&chat));
}
