//! A home, a scripted model, and chats on terminals between them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use vestal_bench::Result;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::TestHome;
use vestal_tui::Size;
use vestal_tui::emulator::{Command, Pty};

/// What the model is told to have it call `terminal` once.
pub(crate) const WORK: &str = "do some work";

/// What the model is told to have a tool print ten megabytes, in a few seconds.
pub(crate) const FLOOD: &str = "flood the tool";

/// What the model is told to have it say ten megabytes.
pub(crate) const TALK: &str = "talk for long";

/// Longest that anything may take.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// A command that prints 10 MB in lines, 100 kB every 30 ms.
const PRINTS: &str = "line=$(printf 'x%.0s' $(seq 99)); \
    block=$(for i in $(seq 1000); do echo $line; done); \
    for i in $(seq 100); do echo \"$block\"; sleep 0.03; done";

pub(crate) struct ChatFixture {
    home: TestHome,
    pub(crate) model: ScriptedModel,
    program: PathBuf,
}

impl ChatFixture {
    pub(crate) fn new(program: PathBuf) -> Self {
        let home = TestHome::create();
        let call =
            |command: &str| ScriptedReply::tool_call("terminal", json!({"command": command}));
        let paragraph = "Words of **some** weight, and `code` between them. ".repeat(4) + "\n\n";
        let talk = paragraph.repeat(10_000_000 / paragraph.len());
        let script = Script::rules([
            ReplyRule::when_user_contains(WORK).reply(call("seq 200")),
            ReplyRule::when_user_contains(WORK)
                .after_tool_results(1)
                .reply(ScriptedReply::text("done")),
            ReplyRule::when_user_contains(FLOOD).reply(call(PRINTS)),
            ReplyRule::when_user_contains(FLOOD)
                .after_tool_results(1)
                .reply(ScriptedReply::text("flooded")),
            ReplyRule::when_user_contains(TALK)
                .reply(ScriptedReply::text(talk).chunked(2_000).paced(Duration::from_millis(1))),
        ]);
        let model = ScriptedModel::start(script.or_echo().forget_bodies());
        let fixture = Self { home, model, program };
        fixture.home.write_config(&format!(
            "model:\n  default: m\n  base_url: {}\n  context_length: 1000000\nterminal:\n  backend: local\n",
            fixture.model.base_url()
        ));
        fixture
    }

    /// Starts a program on a terminal, with nothing in its environment but what it needs.
    pub(crate) fn on_terminal(&self, program: &std::path::Path, args: &[&str]) -> Result<Pty> {
        let command = Command::new(program)
            .args(args)
            .env_clear()
            .envs(self.home.program_variables())
            .env("TERM", "xterm-256color")
            .current_dir(self.home.user());
        Ok(Pty::spawn(command, Size { columns: 100, rows: 40 })?)
    }

    /// Starts a chat.
    pub(crate) fn chat(&self) -> Result<Pty> {
        self.on_terminal(&self.program, &["chat"])
    }

    /// Starts a chat and waits until it can be typed into.
    pub(crate) fn ready_chat(&self) -> Result<Pty> {
        let chat = self.chat()?;
        wait_for_prompt(&chat);
        Ok(chat)
    }

    /// Leaves a chat.
    pub(crate) fn leave(mut chat: Pty) -> Result<()> {
        // Only an empty input lets one leave.
        chat.key("\x15\x04")?;
        chat.wait(TEST_TIMEOUT)?;
        Ok(())
    }

    /// Removes the sandbox.
    pub(crate) fn close(self) -> Result<()> {
        let mut remove = self.home.command(&self.program);
        let removed = remove.args(["rm", "-y", "--files", "default"]).output()?;
        if removed.status.success() { Ok(()) } else { Err("the sandbox was not removed".into()) }
    }
}

/// Waits until there is an input that is empty.
pub(crate) fn wait_for_prompt(chat: &Pty) {
    chat.wait_for(|seen| seen.screen().iter().any(|row| row.trim_end() == "›"), TEST_TIMEOUT);
}
