//! Those who remember beyond a conversation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use vestal_agent::{
    Agent, AgentParts, CompletedTurn, Conversation, EndReason, Memory, MemoryTimeouts, Recalled,
    TurnEvent,
};
use vestal_conversations::ConversationId;
use vestal_model::Message;
use vestal_scripted_model::{ReplyRule, Script, ScriptedFinish, ScriptedReply};

use crate::fixture::{TEST_TIMEOUT, TurnFixture, new, user_prompt};

const KEY: &str = "hunter2-and-a-long-tail-0123456789";

/// What it was told, in order.
#[derive(Debug, Clone, PartialEq)]
enum MemoryEvent {
    Recall,
    Prefetch(String),
    Turn(ConversationId, Vec<String>),
    Compression(usize),
    Ended(ConversationId),
}

/// What it does when it is called.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Works,
    Fails,
    Panics,
    Hangs,
}

/// A memory that keeps what it hears.
struct Recorder {
    way: Way,
    heard: Mutex<Vec<MemoryEvent>>,
    known: Recalled,
    about: Option<String>,
}

impl Recorder {
    fn new(way: Way) -> Self {
        Self { way, heard: Mutex::default(), known: Recalled::default(), about: None }
    }

    fn heard(&self) -> Vec<MemoryEvent> {
        self.heard.lock().unwrap().clone()
    }

    fn turns(&self) -> Vec<Vec<String>> {
        let turn = |heard| match heard {
            MemoryEvent::Turn(_, words) => Some(words),
            _ => None,
        };
        self.heard().into_iter().filter_map(turn).collect()
    }

    async fn hear(&self, heard: MemoryEvent) -> Result<(), String> {
        self.heard.lock().unwrap().push(heard);
        match self.way {
            Way::Works => Ok(()),
            Way::Fails => Err(format!("no connection, key {KEY}")),
            Way::Panics => panic!("a defect of the memory"),
            Way::Hangs => std::future::pending().await,
        }
    }

    async fn until(&self, is_it: impl Fn(&[MemoryEvent]) -> bool) {
        let waiting = async {
            while !is_it(&self.heard()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(TEST_TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "not so: {:?}", self.heard());
    }
}

#[async_trait]
impl Memory for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    async fn recall(&self) -> Recalled {
        match self.hear(MemoryEvent::Recall).await {
            Ok(()) => self.known.clone(),
            Err(notice) => Recalled { words: None, notices: vec![notice] },
        }
    }

    async fn prefetch(&self, dialogue: &str) -> Result<Option<String>, String> {
        self.hear(MemoryEvent::Prefetch(dialogue.to_owned())).await?;
        Ok(self.about.clone())
    }

    async fn sync_turn(&self, turn: &CompletedTurn<'_>) -> Result<(), String> {
        let words = turn.messages.iter().map(reported).collect();
        self.hear(MemoryEvent::Turn(turn.conversation.clone(), words)).await
    }

    async fn before_compression(
        &self,
        _: &ConversationId,
        messages: &[Message],
    ) -> Result<(), String> {
        self.hear(MemoryEvent::Compression(messages.len())).await
    }

    async fn conversation_ended(&self, conversation: &ConversationId) -> Result<(), String> {
        self.hear(MemoryEvent::Ended(conversation.clone())).await
    }
}

/// Returns a message in a line, its calls included.
fn reported(message: &Message) -> String {
    match message {
        Message::User(user) => format!("user: {}", user.text()),
        Message::Assistant(dialogue) => {
            let calls: Vec<&str> = dialogue.calls.iter().map(|call| call.name.as_str()).collect();
            format!("assistant: {}{}", dialogue.text, calls.join(","))
        }
        Message::Tool(result) => format!("tool: {}", result.name),
    }
}

/// Waits for a memory no longer than a test should.
fn hasty() -> MemoryTimeouts {
    let short = Duration::from_millis(50);
    MemoryTimeouts {
        recall: short,
        prefetch: short,
        delivery: TEST_TIMEOUT,
        closing: short,
        ..MemoryTimeouts::default()
    }
}

async fn agent(
    fixture: &TurnFixture,
    memory: &Arc<Recorder>,
    memory_timeouts: MemoryTimeouts,
) -> Agent {
    let mut parts: AgentParts = fixture.parts(&[KEY]).await;
    parts.memory = Some(Arc::clone(memory) as Arc<dyn Memory>);
    parts.options.memory_timeouts = memory_timeouts;
    Agent::new(parts)
}

async fn begin(
    fixture: &TurnFixture,
    memory: &Arc<Recorder>,
    memory_timeouts: MemoryTimeouts,
) -> Conversation {
    agent(fixture, memory, memory_timeouts).await.open(fixture.opening(new())).await.unwrap()
}

fn warnings(fixture: &TurnFixture) -> Vec<String> {
    let warning = |event| match event {
        TurnEvent::Warning { text } => Some(text),
        _ => None,
    };
    fixture.events().into_iter().filter_map(warning).collect()
}

#[tokio::test]
async fn a_completed_turn_is_reported_whole_with_its_secrets_masked() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})).with_text("Let me see. "),
        ScriptedReply::text("one, ").finish(ScriptedFinish::Length),
        ScriptedReply::text("two."),
        ScriptedReply::text("again"),
    ]));
    let memory = Arc::new(Recorder::new(Way::Works));
    let mut conversation = begin(&fixture, &memory, MemoryTimeouts::default()).await;
    let id = conversation.id().clone();
    conversation.run(user_prompt(&format!("count with {KEY}")), &fixture.ears()).await;
    conversation.run(user_prompt("once more"), &fixture.ears()).await;
    conversation.close(EndReason::Left).await.unwrap();
    let masked = memory.heard();
    assert!(!format!("{masked:?}").contains(KEY), "{masked:?}");
    let turns = memory.turns();
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert!(turns[0][0].starts_with("user: count with "), "{turns:?}");
    assert_eq!(turns[0][1..3], ["assistant: Let me see. terminal", "tool: terminal"]);
    assert_eq!(turns[0][3], "assistant: one, ");
    assert_eq!(turns[0][5], "assistant: two.");
    assert_eq!(turns[0].len(), 6, "{turns:?}");
    assert_eq!(turns[1], ["user: once more", "assistant: again"]);
    assert_eq!(memory.heard().last(), Some(&MemoryEvent::Ended(id)));
    let reported = warnings(&fixture);
    assert!(reported.iter().all(|text| !text.contains("memory")), "{reported:?}");
}

#[tokio::test]
async fn a_turn_that_was_interrupted_or_failed_or_refused_is_not_sent_to_the_memory() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "echo up; sleep 1000"})),
        ScriptedReply::error(401, "no"),
        ScriptedReply::text("").finish(ScriptedFinish::Refusal),
        ScriptedReply::text("fine"),
    ]));
    let memory = Arc::new(Recorder::new(Way::Works));
    let mut conversation = begin(&fixture, &memory, MemoryTimeouts::default()).await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (interrupted, ()) = tokio::join!(conversation.run(user_prompt("sleep"), &ears), async {
        fixture.hear(|event| matches!(event, TurnEvent::ToolOutput { .. })).await;
        control.interrupt();
    });
    assert_eq!(interrupted.outcome.word(), "interrupted");
    assert_eq!(conversation.run(user_prompt("fail"), &ears).await.outcome.word(), "failed");
    assert_eq!(conversation.run(user_prompt("refuse"), &ears).await.outcome.word(), "refused");
    assert_eq!(conversation.run(user_prompt("work"), &ears).await.outcome.word(), "completed");
    conversation.close(EndReason::Left).await.unwrap();
    assert_eq!(memory.turns(), [["user: work", "assistant: fine"]]);
}

#[tokio::test]
async fn what_is_known_is_frozen_into_the_prompt_and_notices_are_reported_once() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("a"),
        ScriptedReply::text("b"),
        ScriptedReply::text("c"),
    ]));
    let mut recorder = Recorder::new(Way::Works);
    recorder.known = Recalled {
        words: Some(format!("She likes tea, and her key is {KEY}.")),
        notices: vec!["a file cannot be read".to_owned()],
    };
    let memory = Arc::new(recorder);
    let mut conversation = begin(&fixture, &memory, MemoryTimeouts::default()).await;
    let id = conversation.id().clone();
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    conversation.close(EndReason::Left).await.unwrap();
    assert_eq!(warnings(&fixture), ["a file cannot be read"]);
    // A resumed conversation goes on under the words it began under.
    let mut opening = fixture.opening(vestal_agent::Start::Resume(id));
    opening.cwd = None;
    let other = Arc::new(Recorder::new(Way::Works));
    let agent = agent(&fixture, &other, MemoryTimeouts::default()).await;
    agent.open(opening).await.unwrap().run(user_prompt("three"), &fixture.ears()).await;
    assert!(!other.heard().contains(&MemoryEvent::Recall), "{:?}", other.heard());
    let requests = fixture.model.requests();
    assert_eq!(requests.len(), 3);
    for request in requests {
        let system = request.system();
        assert!(system.contains("She likes tea") && !system.contains(KEY), "{system}");
    }
}

#[tokio::test]
async fn what_is_known_about_a_message_stands_with_it_for_that_turn_and_is_stored_nowhere() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})),
        ScriptedReply::text("a"),
        ScriptedReply::text("b"),
    ]));
    let mut recorder = Recorder::new(Way::Works);
    recorder.about = Some(format!("tea is at four; {}", "x".repeat(50_000)));
    let memory = Arc::new(recorder);
    let mut conversation = begin(&fixture, &memory, MemoryTimeouts::default()).await;
    conversation.run(user_prompt("when is tea?"), &fixture.ears()).await;
    let requests = fixture.model.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        let read = request.messages()[1..].iter().map(ToString::to_string).collect::<String>();
        assert!(read.contains("when is tea?") && read.contains("tea is at four"), "{read}");
        assert!(read.len() < 12_000, "{}", read.len());
    }
    conversation.run(user_prompt("thanks"), &fixture.ears()).await;
    let last = fixture.model.requests().pop().unwrap();
    let read: String = last.messages().iter().map(ToString::to_string).collect();
    assert_eq!(read.matches("tea is at four").count(), 1, "{read}");
    let history = conversation.messages().iter().map(Message::text).collect::<String>();
    assert!(!history.contains("tea is at four"), "{history}");
    let id = conversation.id().clone();
    let store = fixture.agent().await.store().clone();
    for stored in store.history(&id).await.unwrap() {
        assert!(!stored.message.text().contains("tea is at four"), "{stored:?}");
    }
    conversation.close(EndReason::Left).await.unwrap();
    assert!(!format!("{:?}", memory.turns()).contains("tea is at four"));
}

#[tokio::test]
async fn a_memory_that_fails_hangs_or_panics_costs_the_turn_nothing_and_is_reported_once() {
    for way in [Way::Fails, Way::Panics, Way::Hangs] {
        let replies = (1..=4).map(|n| ScriptedReply::text(format!("answer {n}")));
        let fixture = TurnFixture::new(Script::replies(replies));
        let memory = Arc::new(Recorder::new(way));
        let mut conversation = begin(&fixture, &memory, hasty()).await;
        for n in 1..=4 {
            let result = conversation.run(user_prompt(&format!("say {n}")), &fixture.ears()).await;
            assert!(result.outcome.is_completed(), "{way:?}: {:?}", result.outcome);
            assert_eq!(result.text, format!("answer {n}"));
            // The outcome of a failure is reported when the next turn begins.
            let is_turn = |heard: &MemoryEvent| matches!(heard, MemoryEvent::Turn(..));
            memory.until(|heard| heard.iter().any(is_turn)).await;
        }
        conversation.close(EndReason::Left).await.unwrap();
        // Asked about one message alone: a second one would wait for it again.
        let asked = memory.heard().iter().filter(|h| matches!(h, MemoryEvent::Prefetch(_))).count();
        assert_eq!(asked, 1, "{way:?}");
        let reported = warnings(&fixture);
        let failures = if way == Way::Hangs { 2 } else { 3 };
        assert_eq!(reported.len(), failures, "{way:?}: {reported:?}");
        assert!(reported.iter().all(|text| !text.contains(KEY)), "{reported:?}");
    }
}

#[tokio::test]
async fn a_slow_memory_keeps_no_answer_and_is_waited_for_when_the_conversation_is_closed() {
    struct Slow(tokio::sync::Semaphore, Mutex<usize>);
    #[async_trait]
    impl Memory for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        async fn recall(&self) -> Recalled {
            Recalled::default()
        }
        async fn sync_turn(&self, turn: &CompletedTurn<'_>) -> Result<(), String> {
            self.0.acquire().await.map_err(|error| error.to_string())?.forget();
            *self.1.lock().unwrap() += turn.messages.len();
            Ok(())
        }
    }
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text("a"), ScriptedReply::text("b")]));
    let memory = Arc::new(Slow(tokio::sync::Semaphore::new(0), Mutex::default()));
    let mut parts = fixture.parts(&[]).await;
    parts.memory = Some(Arc::clone(&memory) as Arc<dyn Memory>);
    parts.options.memory_timeouts.closing = TEST_TIMEOUT;
    let mut conversation = Agent::new(parts).open(fixture.opening(new())).await.unwrap();
    // Both turns end, although nobody has heard of them yet.
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    assert_eq!(*memory.1.lock().unwrap(), 0);
    let id = conversation.id().clone();
    let store = fixture.agent().await.store().clone();
    let closing = tokio::spawn(conversation.close(EndReason::Left));
    // All is stored, and the memory alone is still waited for.
    let ended = || async { store.get(&id).await.unwrap().ended.is_some() };
    vestal_testkit::until_async("the end is stored", ended).await;
    memory.0.add_permits(2);
    closing.await.unwrap().unwrap();
    assert_eq!(*memory.1.lock().unwrap(), 4);
}

#[tokio::test]
async fn what_children_do_is_reported_as_the_parents_turn_alone() {
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::when_user_contains("split it")
            .reply(ScriptedReply::tool_call("delegate_task", json!({"goal": "child: think"}))),
        ReplyRule::when_user_contains("child: ").reply(ScriptedReply::text("thought")),
        ReplyRule::when_user_contains("split it")
            .after_tool_results(1)
            .reply(ScriptedReply::text("done")),
    ]));
    let mut recorder = Recorder::new(Way::Works);
    recorder.known.words = Some("She likes tea.".to_owned());
    let memory = Arc::new(recorder);
    let mut conversation = begin(&fixture, &memory, MemoryTimeouts::default()).await;
    let id = conversation.id().clone();
    let result = conversation.run(user_prompt("split it"), &fixture.ears()).await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    conversation.close(EndReason::Left).await.unwrap();
    let turn =
        ["user: split it", "assistant: delegate_task", "tool: delegate_task", "assistant: done"];
    assert_eq!(
        memory.heard(),
        [
            MemoryEvent::Recall,
            MemoryEvent::Prefetch("split it".to_owned()),
            MemoryEvent::Turn(id.clone(), turn.map(str::to_owned).into()),
            MemoryEvent::Ended(id),
        ]
    );
    let requests = fixture.model.requests();
    let knowing = requests.iter().filter(|r| r.system().contains("She likes tea"));
    assert_eq!((requests.len(), knowing.count()), (3, 2));
}

#[tokio::test]
async fn what_a_summary_will_stand_for_is_reported_and_the_turn_is_reported_whole() {
    let script = Script::new()
        .rule(
            ReplyRule::always()
                .after_any_tool_results()
                .when_system_contains("earlier part of a conversation")
                .reply(ScriptedReply::text("Goal: read. Done: much.")),
        )
        .rule(
            ReplyRule::when_user_contains("summary")
                .after_tool_results(2)
                .reply(ScriptedReply::text("all read")),
        )
        .rule(ReplyRule::always().after_any_tool_results().reply_with(|request| {
            let n = request.messages().len();
            ScriptedReply::tool_call(
                "terminal",
                json!({"command": format!("echo {n}; seq 1 2000")}),
            )
        }));
    let fixture = TurnFixture::new(script).with("compression.protect_last_n=1");
    let mut recorder = Recorder::new(Way::Works);
    recorder.about = Some("tea is at four".to_owned());
    let memory = Arc::new(recorder);
    let mut opening = fixture.opening(new());
    opening.chain[0].context_length = Some(24_000);
    let agent = agent(&fixture, &memory, MemoryTimeouts::default()).await;
    let mut conversation = agent.open(opening).await.unwrap();
    let result = conversation.run(user_prompt("read it all"), &fixture.ears()).await;
    assert_eq!(result.text, "all read", "{:?}", result.outcome);
    conversation.close(EndReason::Left).await.unwrap();
    let heard = memory.heard();
    assert!(
        heard.iter().any(|heard| matches!(heard, MemoryEvent::Compression(n) if *n > 1)),
        "{heard:?}"
    );
    let [turn] = <[Vec<String>; 1]>::try_from(memory.turns()).unwrap();
    assert_eq!(turn.first().map(String::as_str), Some("user: read it all"));
    assert_eq!(turn.last().map(String::as_str), Some("assistant: all read"));
    let calls = turn.iter().filter(|words| *words == "assistant: terminal").count();
    let results = turn.iter().filter(|words| *words == "tool: terminal").count();
    assert_eq!((calls, results), (result.tool_calls as usize, result.tool_calls as usize));
    assert!(turn.iter().all(|words| !words.contains("Goal: read.")), "{turn:?}");
}
