//! Lists to choose from, what Escape means, and what leaves the chat.

use vestal_scripted_model::{Model, Script, ScriptedReply};

use super::fixture::{ChatTerminal, ENTER};
use crate::chat::fixture::ChatFixture;

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const ESCAPE: &str = "\x1b";
const SHIFT_TAB: &str = "\x1b[Z";

#[test]
fn escape_interrupts_and_the_sequence_of_an_arrow_does_not() {
    let reply = ScriptedReply::text("First part, and never the second.").chunked(12).hold_after(1);
    let chat = ChatFixture::new(Script::replies([reply]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("an earlier line");
    tty.sees("First part,");
    // It begins with what Escape sends.
    tty.types(UP);
    tty.sees("› an earlier line");
    tty.types("\x15a draft");
    tty.sees("› a draft");
    assert_eq!(tty.count("interrupted"), 0, "{}", tty.all());
    tty.types(ESCAPE);
    tty.sees("interrupted; the conversation so far is kept");
    tty.sees("› a draft");
    tty.types("\x15");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_model_is_chosen_with_the_arrow_keys() {
    let models = ["alpha", "beta", "scripted"].map(|id| Model::new(id).context_length(8000));
    let script = Script::replies([ScriptedReply::text("One.")]).models(models);
    let chat = ChatFixture::new(script);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/model");
    tty.sees("in use");
    tty.sees("Enter chooses · Esc cancels");
    tty.types(UP);
    tty.sees_when(|screen| screen.iter().any(|row| row.starts_with('›') && row.contains(":beta")));
    tty.types(ENTER);
    tty.sees("this conversation now uses");
    tty.submits("hello");
    tty.sees("One.");
    assert_eq!(tty.leaves(), 0);
    assert_eq!(chat.model.requests()[0].model(), "beta");
}

#[test]
fn a_conversation_is_found_by_its_words_and_the_list_fits_a_small_window() {
    let chat = ChatFixture::replies(["One.", "Two.", "Three."].map(ScriptedReply::text));
    let mut tty =
        ChatTerminal::take_with(&chat, &["chat"], vestal_tui::Size { columns: 40, rows: 12 });
    tty.sees_prompt();
    tty.submits("mend the roof of the old house");
    tty.sees("One.");
    tty.submits("/new");
    tty.submits("paint the door");
    tty.sees("Two.");
    tty.submits("/new");
    tty.submits("/resume");
    tty.sees("› paint the door");
    tty.types(DOWN);
    tty.sees("› mend the roof");
    tty.types("paint");
    tty.sees_when(|screen| {
        let has = |start: &str| screen.iter().any(|row| row.starts_with(start));
        has("? paint") && has("› paint the door  ") && !has("› mend the roof")
    });
    for row in tty.pty.screen() {
        assert!(row.trim_end().chars().count() <= 40, "{row}");
    }
    tty.types(ESCAPE);
    tty.sees("nothing chosen");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn plan_mode_is_switched_with_shift_tab() {
    let chat = ChatFixture::new(Script::new());
    let mut tty = ChatTerminal::take(&chat);
    tty.types(SHIFT_TAB);
    tty.sees(" · PLAN");
    tty.types(SHIFT_TAB);
    tty.sees_no_more(" · PLAN");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn skills_stand_in_the_list_of_commands() {
    let chat = ChatFixture::new(Script::new());
    let skill = chat.fixture.home().join("skills/deploy");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: deploy\ndescription: How it is done here.\n---\nPush the button.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let mut tty = ChatTerminal::take(&chat);
    tty.types("/");
    tty.sees("› /new");
    tty.types("dep");
    tty.sees("› /deploy  How it is done here.");
    tty.types("\t");
    tty.sees_when(|screen| screen.iter().any(|row| row.trim_end() == "› /deploy"));
    tty.types("\x15");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_conversation_is_saved_and_no_file_is_overwritten() {
    let chat = ChatFixture::replies([ScriptedReply::text("The answer.")]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("a question");
    tty.sees("The answer.");
    tty.submits("/save talk.md");
    tty.sees("wrote talk.md");
    let path = chat.fixture.work().join("talk.md");
    let saved = std::fs::read_to_string(&path).unwrap();
    assert!(saved.contains("a question") && saved.contains("The answer."), "{saved}");
    std::fs::write(&path, "mine").unwrap();
    tty.submits("/save talk.md");
    tty.sees("talk.md exists already");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    tty.submits("/save");
    tty.sees("wrote vestal-");
    tty.submits("/save talk.jsonl");
    tty.sees("wrote talk.jsonl");
    let lines = std::fs::read_to_string(chat.fixture.work().join("talk.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "conversation");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn an_answer_is_copied_through_the_terminal() {
    let chat = ChatFixture::replies([ScriptedReply::text("Do this:\n\n```sh\nls -l\n```\n")]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("how?");
    tty.sees("ls -l");
    tty.submits("/copy 1");
    tty.sees("sent block of code 1 (6 B) to the terminal");
    let written = String::from_utf8_lossy(&tty.pty.written()).into_owned();
    assert!(written.contains("\x1b]52;c;bHMgLWwK\x07"));
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_clipboard_that_nothing_reaches_is_reported_and_the_input_stays() {
    let chat = ChatFixture::new(Script::new());
    let mut tty = ChatTerminal::take(&chat);
    tty.types("look at ");
    // The terminal says that it cannot be asked.
    tty.types("\x16");
    tty.sees("no program here reaches the clipboard");
    tty.sees("save the image to a");
    tty.sees("› look at");
    tty.types("\x15");
    assert_eq!(tty.leaves(), 0);
}
