//! The story that Vestal is for: what an agent made in one turn is there in the
//! next, whatever ended in between. Told on every backend.

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::support::{ProgramFixture, ProgramOutcome, RunningProgram, TEST_TIMEOUT, finish};

/// A fixture whose agent runs what it is told to run.
struct Story {
    fixture: ProgramFixture,
    model: ScriptedModel,
}

#[test]
fn local_keeps_the_workshop_lit() {
    Story::with_fixture(ProgramFixture::new(), "local").is_reported();
}

#[test]
fn native_keeps_the_workshop_lit() {
    Story::with_fixture(ProgramFixture::native(), "native").is_reported();
}

#[test]
fn docker_keeps_the_workshop_lit() {
    Story::with_fixture(ProgramFixture::docker(), "docker").is_reported();
}

#[test]
fn podman_keeps_the_workshop_lit() {
    Story::with_fixture(ProgramFixture::podman(), "docker").is_reported();
}

impl Story {
    fn with_fixture(fixture: ProgramFixture, backend: &str) -> Self {
        let script = Script::rules([
            ReplyRule::when_user_contains("delegate: ").reply_with(|request| {
                let words = request.last_user_text().unwrap_or_default();
                let goal = format!("$ {}", words.trim_start_matches("delegate: "));
                ScriptedReply::tool_call("delegate_task", json!({"goal": goal}))
            }),
            ReplyRule::when_user_contains("delegate: ")
                .after_tool_results(1)
                .reply_with(|request| ScriptedReply::text(request.tool_results().concat())),
        ]);
        let model = ScriptedModel::start(script.or_echo().strict());
        let story = Self { fixture, model };
        std::fs::create_dir_all(story.fixture.home()).unwrap();
        let config = format!(
            "model:\n  default: scripted\n  base_url: {}\nterminal:\n  backend: {backend}\n\
             approvals:\n  unattended: allow\n",
            story.model.base_url()
        );
        std::fs::write(story.fixture.home().join("config.yaml"), config).unwrap();
        story
    }

    fn is_reported(&self) {
        // A turn.
        let first = self.runs(&[], "hostname > ~/h && cat ~/h; cd /; kept=yes");
        let (instance, hostname) = (self.instance(), first.trim().to_owned());
        assert!(!hostname.is_empty());
        let is_the_same = |output: &str| {
            assert_eq!(output.trim(), format!("{hostname}\n{hostname}"), "{output}");
            assert_eq!(self.instance(), instance);
        };

        // The next one of the same conversation, by another process: its shell too.
        let second =
            self.runs(&["--continue"], "cat ~/h; hostname; [ $PWD$kept = /yes ] || echo lost");
        is_the_same(&second);

        // A new conversation: the same place, a shell of its own.
        is_the_same(&self.runs(&[], "cat ~/h; hostname; [ $PWD$kept != /yes ] || echo shared"));

        // A child that was given a part of the work.
        let delegated = self.asks(&[], "delegate: cat ~/h; hostname");
        let delegated: Value = serde_json::from_str(&delegated).unwrap();
        let reported = delegated["results"][0]["summary"].as_str().unwrap();
        let reported: Value = serde_json::from_str(reported).unwrap();
        is_the_same(reported["output"].as_str().unwrap());

        // A process that is killed in the middle of its work.
        let killed = RunningProgram::start(self.command(&[], "$ touch ~/begun; sleep 1000"));
        self.wait_for("test -e ~/begun");
        killed.signal(Signal::KILL);
        drop(killed);
        is_the_same(&self.runs(&[], "cat ~/h; hostname"));

        // What was said before the kill is there, and can be gone on with.
        let found = self.fixture.vestal(["conversations", "search", "begun", "--json"]).exits(0);
        let conversation = found.json()[0]["conversation"].as_str().unwrap().to_owned();
        is_the_same(&self.runs(&["--resume", &conversation], "cat ~/h; hostname"));
    }

    /// Has the agent run a command and returns what it printed.
    fn runs(&self, options: &[&str], command: &str) -> String {
        let answer = self.asks(options, &format!("$ {command}"));
        let result: Value =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!(result["exit_code"], 0, "{answer}");
        result["output"].as_str().unwrap().to_owned()
    }

    fn asks(&self, options: &[&str], words: &str) -> String {
        let outcome: ProgramOutcome = finish(self.command(options, words).spawn().unwrap());
        outcome.exits(0).text()
    }

    fn command(&self, options: &[&str], words: &str) -> std::process::Command {
        let asked = ["chat", "--quiet", "-q", words];
        self.fixture.command(asked.iter().chain(options))
    }

    /// Returns the instance that the agent's sandbox lives in, which must be the only one.
    fn instance(&self) -> String {
        let listed = self.fixture.vestal(["ps", "--json"]).exits(0).json();
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["state"], "running");
        listed[0]["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a command in the sandbox succeeds.
    fn wait_for(&self, condition: &str) {
        let text = format!("until {condition}; do sleep 0.05; done");
        let limit = TEST_TIMEOUT.as_secs().to_string();
        self.fixture.vestal(["run", "--session", "none", "--timeout", &limit, &text]).exits(0);
    }
}
