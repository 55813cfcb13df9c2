//! Conversations as a front end opens them: their sandbox, their model, their tools.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use vestal_agent::{EndReason, EventSink, NoHuman, TurnOutcome};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_model::{Part, UserMessage};
use vestal_runtime::{
    ConversationChoice, OpenRequest, Opened, Runtime, RuntimeError, SANDBOX_CHOICE, SandboxChoice,
    SandboxPlacement, Toolsets,
};
use vestal_sandbox::{Engine, Overrides, TaskName};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

/// A home with a model.
struct ConversationFixture {
    dir: TempDir,
    model: ScriptedModel,
}

impl ConversationFixture {
    fn new() -> Self {
        let replies = ["one", "two", "three"].map(ScriptedReply::text);
        Self {
            dir: tempfile::tempdir().unwrap(),
            model: ScriptedModel::start(Script::replies(replies).strict()),
        }
    }

    async fn runtime(&self, model: &str) -> Runtime {
        let set = [
            "terminal.backend=local".to_owned(),
            format!("model.base_url={}", self.model.base_url()),
            format!("model.default={model}"),
        ];
        let set =
            set.iter().map(|set| Override::parse(&vestal_api::schema(), set).unwrap()).collect();
        let home = Home::at(self.dir.path());
        let settings = Settings::load(&vestal_api::schema(), home, Environment::default(), set);
        Runtime::builder(Engine::open(settings).unwrap()).build().await.unwrap()
    }
}

async fn open(runtime: &Runtime, request: OpenRequest) -> Opened {
    runtime.open(request, Arc::new(NoHuman)).await.unwrap()
}

/// Says something in a conversation, so that it is on record, and closes it.
async fn talk(opened: &mut Opened) {
    let text = "hello".to_owned();
    let printed = UserMessage { parts: vec![Part::Text { text }] };
    let result = opened.conversation.run(printed, &EventSink::new(drop)).await;
    assert!(matches!(result.outcome, TurnOutcome::Completed), "{:?}", result.outcome);
}

fn in_web() -> SandboxChoice {
    SandboxChoice::new("web".parse::<TaskName>().unwrap(), Overrides::default())
}

#[tokio::test]
async fn a_conversation_is_resumed_in_its_sandbox_and_with_its_model() {
    let fixture = ConversationFixture::new();
    let runtime = fixture.runtime("first").await;
    let request =
        OpenRequest { placement: SandboxPlacement::In(in_web()), ..OpenRequest::new("cli") };
    let mut begun = open(&runtime, request).await;
    assert!(!begun.is_resumed);
    talk(&mut begun).await;
    let id = begun.conversation.id().clone();
    begun.conversation.close(EndReason::OneShot).await.unwrap();
    runtime.close().await;

    // Another process, whose settings name another model.
    let runtime = fixture.runtime("second").await;
    let request = OpenRequest { which: ConversationChoice::Latest, ..OpenRequest::new("cli") };
    let mut resumed = open(&runtime, request).await;
    assert_eq!(*resumed.conversation.id(), id);
    assert!(resumed.is_resumed);
    assert_eq!(resumed.choice, in_web());
    assert_eq!(resumed.notices, Vec::<String>::new());
    talk(&mut resumed).await;
    let models: Vec<String> =
        fixture.model.requests().iter().map(|request| request.model().to_owned()).collect();
    assert_eq!(models, ["first", "first"]);
    resumed.conversation.close(EndReason::OneShot).await.unwrap();
    runtime.close().await;
}

#[tokio::test]
async fn a_sandbox_that_the_caller_attached_is_not_recorded() {
    let fixture = ConversationFixture::new();
    let runtime = fixture.runtime("m").await;
    let project = Some(Path::new("/project").to_owned());
    let placement =
        SandboxPlacement::Attached { choice: in_web(), backend: "local".to_owned(), project };
    let mut opened = open(&runtime, OpenRequest { placement, ..OpenRequest::new("test") }).await;
    assert_eq!(opened.choice, in_web());
    talk(&mut opened).await;
    let id = opened.conversation.id().clone();
    assert_eq!(runtime.agent().store().state(&id, SANDBOX_CHOICE).await.unwrap(), None);
    opened.conversation.close(EndReason::OneShot).await.unwrap();
    runtime.close().await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_read_any_more_is_reported() {
    let fixture = ConversationFixture::new();
    let runtime = fixture.runtime("m").await;
    let mut opened = open(&runtime, OpenRequest::new("cli")).await;
    talk(&mut opened).await;
    let id = opened.conversation.id().clone();
    opened.conversation.close(EndReason::OneShot).await.unwrap();
    let spoilt = serde_json::json!({"task": 7});
    runtime.agent().store().set_state(&id, SANDBOX_CHOICE, Some(&spoilt)).await.unwrap();
    let request = OpenRequest { which: ConversationChoice::Id(id), ..OpenRequest::new("cli") };
    let resumed = open(&runtime, request).await;
    assert_eq!(resumed.choice, SandboxChoice::default());
    assert!(resumed.notices[0].contains("cannot be read"), "{:?}", resumed.notices);
    resumed.conversation.close(EndReason::OneShot).await.unwrap();
    runtime.close().await;
}

#[tokio::test]
async fn an_unknown_toolset_is_refused_with_those_there_are() {
    let fixture = ConversationFixture::new();
    let runtime = fixture.runtime("m").await;
    let toolsets = Toolsets::Only(vec!["terminl".to_owned()]);
    let request = OpenRequest { toolsets, ..OpenRequest::new("test") };
    let refused = runtime.open(request, Arc::new(NoHuman)).await.map(drop);
    let Err(RuntimeError::UnknownToolset { name, known }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(name, "terminl");
    assert!(known.contains(&"terminal".to_owned()), "{known:?}");
    runtime.close().await;
}
