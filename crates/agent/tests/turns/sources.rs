//! Tools that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::{
    Agent, Conversation, ConversationOptions, Selection, Tool, ToolContext, ToolOutput, ToolSource,
    TurnEvent,
};
use vestal_model::ToolSpec;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

/// A source that has what a test puts into it.
#[derive(Default)]
struct Shelf {
    tools: Mutex<Vec<Arc<dyn Tool>>>,
    news: Mutex<Vec<String>>,
    version: AtomicUsize,
    settled: AtomicUsize,
    looked: AtomicUsize,
}

impl Shelf {
    fn put(&self, names: &[&str]) {
        let tool = |name: &&str| Arc::new(Word((*name).to_owned())) as Arc<dyn Tool>;
        *self.tools.lock().unwrap() = names.iter().map(tool).collect();
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ToolSource for Shelf {
    async fn settle(&self) {
        self.settled.fetch_add(1, Ordering::SeqCst);
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst) as u64
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        self.tools.lock().unwrap().clone()
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.news.lock().unwrap())
    }

    fn may_offer(&self, name: &str) -> bool {
        name.starts_with("shelf")
    }
}

/// A tool that says its name.
struct Word(String);

#[async_trait]
impl Tool for Word {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.clone(),
            description: "Says its name.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        }
    }

    fn toolset(&self) -> &'static str {
        "shelf-words"
    }

    async fn call(&self, _: &ToolContext, _: Value) -> ToolOutput {
        ToolOutput::ok(format!("I am {}", self.0))
    }
}

async fn begin(fixture: &TurnFixture, shelf: &Arc<Shelf>, selection: Selection) -> Conversation {
    let mut parts = fixture.parts(&["hunter2-secret"]).await;
    parts.sources = vec![Arc::clone(shelf) as Arc<dyn ToolSource>];
    let opening = ConversationOptions { selection, ..fixture.opening(new()) };
    Agent::new(parts).open(opening).await.unwrap()
}

fn offered(fixture: &TurnFixture, request: usize) -> Vec<String> {
    fixture.model.requests()[request].tool_names().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_turn_has_the_tools_that_a_source_had_when_it_began_in_order_of_name() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("one"),
        ScriptedReply::tool_call("aa_new", json!({})),
        ScriptedReply::text("two"),
        ScriptedReply::text("three"),
    ]));
    let shelf = Arc::new(Shelf::default());
    let mut conversation = begin(&fixture, &shelf, Selection::default()).await;
    conversation.run(user_prompt("first"), &fixture.ears()).await;
    assert!(!offered(&fixture, 0).contains(&"aa_new".to_owned()));
    shelf.put(&["zz_new", "aa_new"]);
    conversation.run(user_prompt("second"), &fixture.ears()).await;
    let names = offered(&fixture, 1);
    assert!(names.contains(&"aa_new".to_owned()) && names.contains(&"zz_new".to_owned()));
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(fixture.model.requests()[2].tool_results(), ["I am aa_new"]);
    shelf.put(&[]);
    conversation.run(user_prompt("third"), &fixture.ears()).await;
    assert!(!offered(&fixture, 3).contains(&"aa_new".to_owned()));
    assert_eq!(shelf.settled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_source_that_has_not_changed_is_not_looked_at_again() {
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text("one"), ScriptedReply::text("two")]));
    let shelf = Arc::new(Shelf::default());
    shelf.put(&["aa"]);
    let mut conversation = begin(&fixture, &shelf, Selection::default()).await;
    conversation.run(user_prompt("first"), &fixture.ears()).await;
    let looked = shelf.looked.load(Ordering::SeqCst);
    conversation.run(user_prompt("second"), &fixture.ears()).await;
    assert_eq!(shelf.looked.load(Ordering::SeqCst), looked);
    assert!(offered(&fixture, 1).contains(&"aa".to_owned()));
}

#[tokio::test]
async fn what_a_source_has_to_tell_is_reported_once_and_without_secrets() {
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text("one"), ScriptedReply::text("two")]));
    let shelf = Arc::new(Shelf::default());
    shelf.news.lock().unwrap().push("the shelf fell: hunter2-secret".to_owned());
    let mut conversation = begin(&fixture, &shelf, Selection::default()).await;
    conversation.run(user_prompt("first"), &fixture.ears()).await;
    conversation.run(user_prompt("second"), &fixture.ears()).await;
    let warnings: Vec<String> = fixture
        .events()
        .into_iter()
        .filter_map(|event| match event {
            TurnEvent::Warning { text } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("the shelf fell: "), "{warnings:?}");
    assert!(!warnings[0].contains("hunter2-secret"), "{warnings:?}");
}

#[tokio::test]
async fn the_first_part_of_a_toolset_stands_for_all_that_begin_with_it() {
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text("one"), ScriptedReply::text("two")]));
    let shelf = Arc::new(Shelf::default());
    // Not there yet: that is not a reason to say that there is none.
    let toolsets = vec!["todo".to_owned(), "shelf".to_owned()];
    let selection = Selection { toolsets, ..Selection::default() };
    let mut conversation = begin(&fixture, &shelf, selection).await;
    conversation.run(user_prompt("first"), &fixture.ears()).await;
    assert_eq!(offered(&fixture, 0), ["todo"]);
    shelf.put(&["aa"]);
    conversation.run(user_prompt("second"), &fixture.ears()).await;
    assert_eq!(offered(&fixture, 1), ["aa", "todo"]);
    let warned = fixture.events().iter().any(|event| matches!(event, TurnEvent::Warning { .. }));
    assert!(!warned, "{:?}", fixture.events());
}

#[tokio::test]
async fn children_have_the_tools_of_sources_that_their_parent_has() {
    let script = Script::rules([
        ReplyRule::when_user_contains("split it").reply(ScriptedReply::tool_call(
            "delegate_task",
            json!({"tasks": [{"goal": "child: call it"}]}),
        )),
        ReplyRule::when_user_contains("child: ").reply(ScriptedReply::tool_call("aa", json!({}))),
        ReplyRule::when_user_contains("child: ")
            .after_tool_results(1)
            .reply_with(|request| ScriptedReply::text(request.tool_results().concat())),
        ReplyRule::when_user_contains("split it")
            .after_tool_results(1)
            .reply_with(|request| ScriptedReply::text(request.tool_results().concat())),
    ]);
    let fixture = TurnFixture::new(script);
    let shelf = Arc::new(Shelf::default());
    shelf.put(&["aa", "bb"]);
    let without_tools = vec!["bb".to_owned()];
    let selection = Selection { without_tools, ..Selection::default() };
    let mut conversation = begin(&fixture, &shelf, selection).await;
    let result = conversation.run(user_prompt("split it"), &fixture.ears()).await;
    assert!(result.text.contains("I am aa"), "{}", result.text);
    let requests = fixture.model.requests();
    let child = requests
        .iter()
        .find(|request| request.last_user_text().is_some_and(|text| text.starts_with("child: ")));
    let names = child.unwrap().tool_names();
    assert!(names.contains(&"aa") && !names.contains(&"bb"), "{names:?}");
}
