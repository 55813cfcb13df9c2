//! Conversations that grow too long.

use serde_json::json;
use vestal_agent::{TurnEvent, TurnOutcome};
use vestal_conversations::MessageStanding;
use vestal_model::{Freshness, ModelOptions, Models, ProviderApi};
use vestal_scripted_model::{Model, ReplyRule, Script, ScriptedReply};

use crate::fixture::TurnFixture;

/// A model that reads a long file five times, and can be told to summarise.
fn reader(overflow: Option<ScriptedReply>) -> Script {
    let mut script = Script::new();
    if let Some(overflow) = overflow {
        script = script.rule(ReplyRule::after_tool_results(3).reply(overflow).once());
    }
    script
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
        }))
}

#[tokio::test]
async fn a_conversation_above_its_share_of_the_context_is_summarised_and_goes_on() {
    for api in [ProviderApi::ChatCompletions, ProviderApi::AnthropicMessages] {
        let fixture = TurnFixture::speaking(api, reader(None)).with("compression.protect_last_n=1");
        let agent = fixture.agent().await;
        let mut opening = fixture.opening(crate::fixture::new());
        opening.chain[0].context_length = Some(24_000);
        let mut conversation = agent.open(opening).await.unwrap();
        let result =
            conversation.run(crate::fixture::user_prompt("read it all"), &fixture.ears()).await;
        assert!(matches!(result.outcome, TurnOutcome::Completed), "{:?}", result.outcome);
        assert_eq!(result.text, "all read");
        assert!(fixture.events().iter().any(|event| matches!(event, TurnEvent::Compressed { .. })));
        let history = agent.store().history(conversation.id()).await.unwrap();
        assert!(history.iter().any(|stored| stored.standing == MessageStanding::Compacted));
        let seen = agent.store().messages(conversation.id()).await.unwrap();
        assert!(seen[0].message.text().contains("USER: read it all"), "{:?}", seen[0]);
        assert!(seen[0].message.text().contains("Goal: read."));
        // What the next process sees is what this one continues with.
        let live: Vec<String> =
            conversation.messages().iter().map(vestal_model::Message::text).collect();
        let stored: Vec<String> = seen.iter().map(|stored| stored.message.text()).collect();
        assert_eq!(live, stored);
    }
}

#[tokio::test]
async fn a_limit_that_the_provider_names_is_learned_and_kept_to() {
    let overflow =
        ScriptedReply::error(400, "This model's maximum context length is 20000 tokens.");
    let fixture = TurnFixture::new(reader(Some(overflow))).with("compression.protect_last_n=1");
    let result = fixture.turn("read it all").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    assert_eq!(result.text, "all read");
}

#[tokio::test]
async fn a_context_length_that_the_provider_lists_is_kept_to() {
    let listed = Model::new("m").context_length(24_000);
    let fixture =
        TurnFixture::new(reader(None).models([listed])).with("compression.protect_last_n=1");
    // As `vestal model list` leaves it.
    let lists = vestal_agent::settings::model_lists(&fixture.settings());
    let models = Models::new(ModelOptions::default()).unwrap();
    lists.list(&models, &fixture.endpoint(), Freshness::Cached).await.unwrap();
    let agent = fixture.agent().await;
    let mut conversation = agent.open(fixture.opening(crate::fixture::new())).await.unwrap();
    assert_eq!(conversation.context_used().window, Some(24_000));
    let result =
        conversation.run(crate::fixture::user_prompt("read it all"), &fixture.ears()).await;
    assert_eq!(result.text, "all read", "{:?}", result.outcome);
    assert_eq!(fixture.model.other_requests().len(), 1, "the kept list is young enough");
}

#[tokio::test]
async fn one_result_that_is_too_long_for_the_model_is_shortened_and_the_turn_goes_on() {
    for refusal in ["maximum context length is 8000 tokens", "prompt is too long"] {
        let fixture = TurnFixture::new(Script::rules([ReplyRule::always()
            .after_any_tool_results()
            .reply_with(move |request| {
                let results = request.tool_results();
                match results.iter().map(String::len).sum::<usize>() {
                    0 => ScriptedReply::tool_call("terminal", json!({"command": "seq 1 200000"})),
                    1..6_000 => ScriptedReply::text(format!("it begins: {}", &results[0][..20])),
                    _ => ScriptedReply::error(400, refusal),
                }
            })]));
        let agent = fixture.agent().await;
        let mut conversation = agent.open(fixture.opening(crate::fixture::new())).await.unwrap();
        let result = conversation.run(crate::fixture::user_prompt("count"), &fixture.ears()).await;
        assert!(result.text.starts_with("it begins: "), "{refusal}: {:?}", result.outcome);
        let mut warnings = fixture.events().into_iter().filter_map(|event| match event {
            TurnEvent::Warning { text } => Some(text),
            _ => None,
        });
        assert!(warnings.any(|text| text.contains("cannot hold the results")), "{refusal}");
        // A larger model can still read all of it.
        let seen = agent.store().messages(conversation.id()).await.unwrap();
        assert!(seen.iter().any(|stored| stored.message.text().len() > 40_000), "{refusal}");
    }
}

#[tokio::test]
async fn pictures_that_do_not_fit_are_left_out_where_the_words_do_without() {
    let fixture = TurnFixture::new(Script::rules([ReplyRule::always().reply_with(|request| {
        if request.messages().last().unwrap().to_string().contains("image_url") {
            ScriptedReply::error(400, "maximum context length is 900 tokens")
        } else {
            ScriptedReply::text("read")
        }
    })]));
    let agent = fixture.agent().await;
    let image = vestal_model::Image::from_bytes(b"\x89PNG\r\n\x1a\n rest").unwrap();
    for (optional, answer) in [(true, "read"), (false, "")] {
        let mut conversation = agent.open(fixture.opening(crate::fixture::new())).await.unwrap();
        let mut dialogue = crate::fixture::user_prompt("look at shot.png");
        let image = vestal_model::Image { optional, ..image.clone() };
        dialogue.parts.push(vestal_model::Part::Image(image));
        let result = conversation.run(dialogue, &fixture.ears()).await;
        assert_eq!(result.text, answer, "{:?}", result.outcome);
    }
}

#[tokio::test]
async fn what_cannot_be_made_shorter_is_reported_as_too_long() {
    let overflow = ScriptedReply::error(400, "maximum context length is 10 tokens");
    let fixture = TurnFixture::new(Script::rules([ReplyRule::always()
        .after_any_tool_results()
        .reply(overflow)]));
    let result = fixture.turn("hello").await;
    let TurnOutcome::Failed(error) = result.outcome else { panic!("{:?}", result.outcome) };
    assert!(error.to_string().contains("does not fit"), "{error}");
}

#[tokio::test]
async fn without_a_summary_the_work_goes_on_with_what_is_known() {
    let script = Script::new()
        .rule(
            ReplyRule::always()
                .after_any_tool_results()
                .when_system_contains("earlier part of a conversation")
                .reply(ScriptedReply::error(401, "no")),
        )
        .rule(
            ReplyRule::when_user_contains("No summary")
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
    let agent = fixture.agent().await;
    let mut opening = fixture.opening(crate::fixture::new());
    opening.chain[0].context_length = Some(24_000);
    let mut conversation = agent.open(opening).await.unwrap();
    let result =
        conversation.run(crate::fixture::user_prompt("read it all"), &fixture.ears()).await;
    assert_eq!(result.text, "all read", "{:?}", result.outcome);
}

#[tokio::test]
async fn an_interrupt_while_it_is_summed_up_leaves_the_conversation_as_it_was() {
    let summary = ReplyRule::always()
        .after_any_tool_results()
        .when_system_contains("earlier part of a conversation")
        .reply(ScriptedReply::text("never said").stall_after(0));
    let work = ReplyRule::always().after_any_tool_results().reply_with(|request| {
        let n = request.messages().len();
        ScriptedReply::tool_call("terminal", json!({"command": format!("echo {n}; seq 1 2000")}))
    });
    let fixture =
        TurnFixture::new(Script::rules([summary, work])).with("compression.protect_last_n=1");
    let agent = fixture.agent().await;
    let mut opening = fixture.opening(crate::fixture::new());
    opening.chain[0].context_length = Some(24_000);
    let mut conversation = agent.open(opening).await.unwrap();
    let (control, ears) = (conversation.control(), fixture.ears());
    let (result, ()) =
        tokio::join!(conversation.run(crate::fixture::user_prompt("read it all"), &ears), async {
            fixture.hear(|event| matches!(event, TurnEvent::Compressing { .. })).await;
            control.interrupt();
        });
    assert_eq!(result.outcome.word(), "interrupted");
    assert_eq!(conversation.messages()[0].text(), "read it all");
    let history = agent.store().history(conversation.id()).await.unwrap();
    assert!(history.iter().all(|stored| stored.standing != MessageStanding::Compacted));
}
