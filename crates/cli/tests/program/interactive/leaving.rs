//! Interrupts, closed terminals, signals and crashes: no word is lost, and the
//! sandbox stays.

use rustix::process::Signal;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::Fifo;
use vestal_testkit::wait_until;

use super::fixture::{ChatTerminal, END, ENTER, INTERRUPT, columns};
use crate::chat::fixture::{ChatFixture, terminal};
use crate::support::ProgramFixture;

fn pipe(chat: &ChatFixture, name: &str) -> Fifo {
    Fifo::create(chat.fixture.work().join(name))
}

/// Reports whether a process of the sandbox still waits at the pipe.
fn is_waited_at(chat: &ChatFixture) -> bool {
    let found = std::process::Command::new("pgrep")
        .args(["-f", &format!("cat {}/go", chat.fixture.work().display())])
        .output()
        .unwrap();
    !found.stdout.is_empty()
}

#[test]
fn ctrl_c_interrupts_the_turn_and_its_command_and_the_chat_goes_on() {
    let chat = ChatFixture::new(Script::new());
    let go = pipe(&chat, "go");
    chat.model.push(terminal(&format!("echo be''gun; cat {}", go.display())));
    chat.model.push(ScriptedReply::text("Here again."));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("work");
    tty.sees("begun");
    wait_until("the command runs", || is_waited_at(&chat));
    tty.types(INTERRUPT);
    tty.sees("interrupted");
    wait_until("the command has ended", || !is_waited_at(&chat));
    tty.submits("are you there?");
    tty.sees("Here again.");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn ctrl_c_clears_the_input_and_twice_on_nothing_leaves() {
    let chat = ChatFixture::new(Script::new());
    let mut tty = ChatTerminal::take(&chat);
    tty.types("half a thought");
    tty.sees("half a thought");
    tty.types(INTERRUPT);
    tty.sees_no_more("half a thought");
    tty.types(INTERRUPT);
    tty.sees("again to quit");
    tty.types(INTERRUPT);
    assert_eq!(tty.ends(), 0);
}

#[test]
fn the_terminal_is_as_it_was_when_the_chat_has_gone() {
    let chat = ChatFixture::new(Script::new());
    let tty = ChatTerminal::take(&chat);
    let written = |tty: &ChatTerminal| String::from_utf8_lossy(&tty.pty.written()).into_owned();
    assert!(written(&tty).contains("\x1b[?2004h"));
    let mut tty = tty;
    tty.types(END);
    assert_eq!(tty.ends(), 0);
    let all = written(&tty);
    let last = |sequence: &str| all.rfind(sequence);
    assert!(last("\x1b[?2004l") > last("\x1b[?2004h"), "{all:?}");
    assert!(last("\x1b[?25h") > last("\x1b[?25l"), "{all:?}");
    assert!(last("\x1b[?1004l") > last("\x1b[?1004h"), "{all:?}");
}

#[test]
fn a_terminal_that_is_closed_during_a_turn_loses_no_word() {
    let reply = ScriptedReply::text("First part, and never the second.").chunked(12).hold_after(1);
    let chat = ChatFixture::new(Script::replies([reply, ScriptedReply::text("Going on.")]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("tell me");
    tty.sees("First part,");
    tty.pty.close();
    assert_eq!(tty.ends(), 129);
    chat.until(ScriptedModel::wait_for_hangup);
    let mut tty = ChatTerminal::take_with(&chat, &["chat", "-c"], columns(80));
    tty.sees("tell me");
    tty.sees("First part,");
    tty.sees_prompt();
    tty.submits("go on");
    tty.sees("Going on.");
    assert_eq!(tty.leaves(), 0);
    let requests = chat.model.requests();
    let heard = serde_json::to_string(requests[1].messages()).unwrap();
    assert!(heard.contains("tell me") && heard.contains("First part,"), "{heard}");
}

#[test]
fn sigterm_during_a_tool_ends_the_command_and_keeps_messages() {
    let chat = ChatFixture::new(Script::new());
    let go = pipe(&chat, "go");
    chat.model.push(terminal(&format!("echo be''gun; cat {}", go.display())));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("work");
    tty.sees("begun");
    tty.signal(Signal::TERM);
    assert_eq!(tty.ends(), 143);
    wait_until("the command has ended", || !is_waited_at(&chat));
    chat.model.push(ScriptedReply::text("Going on."));
    chat.vestal(["chat", "-c", "-q", "go on"]).exits(0);
    let heard = serde_json::to_string(chat.model.requests()[1].messages()).unwrap();
    assert!(heard.contains("\"work\"") && heard.contains("echo be"), "{heard}");
}

#[test]
fn a_killed_chat_loses_no_word_and_leaves_the_sandbox() {
    let chat = ChatFixture::new(Script::replies([
        terminal("echo kept > note; export STAGE=test"),
        ScriptedReply::text("Written."),
        terminal("cat note; echo stage=$STAGE"),
        ScriptedReply::text("It is there."),
    ]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("write it down");
    tty.sees("Written.");
    // An answer is stored when it is complete, a moment after its words are seen.
    tty.sees_rest();
    tty.signal(Signal::KILL);
    tty.ends();
    let mut tty = ChatTerminal::take_with(&chat, &["chat", "-c"], columns(80));
    tty.sees("Written.");
    tty.sees_prompt();
    tty.submits("is it there?");
    tty.sees("It is there.");
    let requests = chat.model.requests();
    let result = requests[3].last_tool_results()[0].clone();
    assert!(result.contains("kept") && result.contains("stage=test"), "{result}");
    assert_eq!(tty.leaves(), 0);
}

/// Leaves a chat whose sandbox is its own, in each way there is. `left` says
/// whether something of the sandbox is there.
fn leave_with_a_sandbox_of_its_own(
    chat: &ChatFixture,
    variables: &[(&str, String)],
    left: impl Fn() -> bool,
) {
    type Leaving = fn(&mut ChatTerminal);
    let ways: [(Leaving, i32); 3] = [
        (|tty| tty.types(END), 0),
        (|tty| tty.signal(Signal::TERM), 143),
        (|tty| tty.signal(Signal::HUP), 129),
    ];
    for (leaves, code) in ways {
        chat.model.push(terminal("echo be''gun"));
        chat.model.push(ScriptedReply::text("Done."));
        let args = ["--set", "terminal.persist_across_processes=false", "chat"];
        let mut tty = ChatTerminal::start(chat, &args, columns(80), variables);
        tty.sees_prompt();
        tty.submits("work");
        tty.sees("Done.");
        tty.sees_rest();
        assert!(left(), "there is one");
        leaves(&mut tty);
        assert_eq!(tty.ends(), code);
        assert!(!left(), "still there after the chat ended with {code}");
    }
}

#[test]
fn a_sandbox_of_the_chats_own_is_gone_before_the_chat_is() {
    let chat = ChatFixture::new(Script::new());
    let instances = chat.fixture.home().join("sandboxes/default/instances");
    leave_with_a_sandbox_of_its_own(&chat, &chat.variables(), || instances.exists());
}

#[test]
fn a_container_of_the_chats_own_is_gone_before_the_chat_is() {
    let chat = ChatFixture {
        fixture: ProgramFixture::docker(),
        model: ScriptedModel::start(Script::new()),
    };
    let mut variables = chat.variables();
    variables.retain(|(name, _)| *name != "TERMINAL_ENV");
    leave_with_a_sandbox_of_its_own(&chat, &variables, || !chat.fixture.containers().is_empty());
}

#[test]
fn two_chats_in_one_sandbox_do_not_get_in_each_others_way() {
    let chat = ChatFixture::new(Script::new());
    let mut first = ChatTerminal::take(&chat);
    let mut second = ChatTerminal::take(&chat);
    chat.model.push(terminal("echo shared > between; cd /; export WHO=first"));
    chat.model.push(ScriptedReply::text("First is done."));
    first.submits("one");
    first.sees("First is done.");
    chat.model.push(terminal("pwd; cat between; echo who=$WHO"));
    chat.model.push(ScriptedReply::text("Second is done."));
    second.submits("two");
    second.sees("Second is done.");
    let requests = chat.model.requests();
    let result = requests[3].last_tool_results()[0].clone();
    assert!(result.contains("shared") && result.contains("who=\\n"), "{result}");
    assert_eq!(first.leaves(), 0);
    assert_eq!(second.leaves(), 0);
}

#[test]
fn a_chat_without_a_message_leaves_no_conversation() {
    let chat = ChatFixture::new(Script::new());
    assert_eq!(ChatTerminal::take(&chat).leaves(), 0);
    let listed = chat.vestal(["conversations", "list", "--json"]).exits(0).json();
    assert_eq!(listed, serde_json::json!([]), "{listed}");
}

#[test]
fn somebody_types_before_the_chat_is_ready() {
    let chat = ChatFixture::replies([ScriptedReply::text("Good morning.")]);
    let mut tty = ChatTerminal::take_with(&chat, &["chat"], columns(80));
    tty.types("early bird");
    tty.types(ENTER);
    tty.sees("Good morning.");
    assert_eq!(tty.count("vestal · scripted"), 1, "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
}
