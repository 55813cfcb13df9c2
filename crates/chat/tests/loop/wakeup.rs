//! Turns that begin by themselves, because a background job has news.

use std::path::Path;

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_testkit::files::Fifo;
use vestal_tui::KeyPress;

use crate::commands::{rests, seen};
use crate::fixture::ChatFixture;

/// A place where a command waits until somebody opens it.
struct Gate(Fifo);

impl Gate {
    fn new(fixture: &ChatFixture, name: &str) -> Self {
        Self(Fifo::create(fixture.file(name)))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Lets the command go on that waits here, or will.
    fn opens(&self) {
        tokio::task::block_in_place(|| self.0.write("go\n"));
    }
}

/// A model that starts a job and wants to hear of it.
fn starts(command: &str, wants: &serde_json::Value) -> ScriptedReply {
    let mut arguments = json!({"command": command, "background": true});
    arguments.as_object_mut().unwrap().extend(wants.as_object().unwrap().clone());
    ScriptedReply::tool_call("terminal", arguments)
}

fn builds(gate: &Gate) -> ScriptedReply {
    let command = format!("cat {}; echo built", gate.path().display());
    starts(&command, &json!({"notify_on_complete": true}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_ends_while_nobody_types_begins_a_turn() {
    let fixture = ChatFixture::new(Script::new());
    let gate = Gate::new(&fixture, "go");
    fixture.model.push(builds(&gate));
    fixture.model.push(ScriptedReply::text("It runs."));
    fixture.model.push(ScriptedReply::text("The build is there."));
    fixture
        .play(async |person| {
            person.submits("build it");
            person.sees("It runs.").await;
            rests(&person).await;
            gate.opens();
            person.sees("The build is there.").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    let heard = seen(&fixture);
    assert_eq!((heard.len(), heard[0].as_str()), (2, "build it"), "{heard:?}");
    assert!(heard[1].contains("has ended with exit code 0") && heard[1].contains("built"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_waits_for_somebody_who_writes_and_comes_when_they_have_cleared_it() {
    let fixture = ChatFixture::new(Script::new());
    let gate = Gate::new(&fixture, "go");
    fixture.model.push(builds(&gate));
    fixture.model.push(ScriptedReply::text("It runs."));
    fixture
        .play(async |person| {
            person.submits("build it");
            person.sees("It runs.").await;
            rests(&person).await;
            person.types("half a thought");
            person.sees("› half a thought").await;
            gate.opens();
            person.sees("a background job has news").await;
            assert_eq!(fixture.model.requests().len(), 2, "nothing is asked under their hands");
            person.sees("› half a thought").await;
            fixture.model.push(ScriptedReply::text("The build is there."));
            person.presses(KeyPress::control('c'));
            person.sees("The build is there.").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    assert!(seen(&fixture)[1].contains("has ended"), "{:?}", seen(&fixture));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_watched_for_begins_a_turn_in_a_chat_that_came_back() {
    let fixture = ChatFixture::new(Script::new());
    let (one, two) = (Gate::new(&fixture, "one"), Gate::new(&fixture, "two"));
    let (first, second) = (one.path().display(), two.path().display());
    let command = format!("cat {first}; echo server ready; cat {second}");
    fixture.model.push(starts(&command, &json!({"watch_patterns": ["ready"]})));
    fixture.model.push(ScriptedReply::text("It starts."));
    fixture
        .play(async |person| {
            person.submits("serve it");
            person.sees("It starts.").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    let (id, _) = fixture.stored().await;
    fixture.model.push(ScriptedReply::text("It serves."));
    fixture.model.push(ScriptedReply::text("It is over."));
    let fixture = fixture.resuming(id);
    fixture
        .play(async |person| {
            person.sees("It starts.").await;
            one.opens();
            person.sees("It serves.").await;
            rests(&person).await;
            two.opens();
            person.sees("It is over.").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    let heard = seen(&fixture);
    assert!(heard[1].contains("printed what you watch for:\nserver ready"), "{heard:?}");
    assert!(heard[2].contains("has ended with exit code 0"), "{heard:?}");
}
