//! Commands: what is said to the program and not to the model.

use serde_json::json;
use vestal_conversations::{ConversationFilter, ConversationStore, ConversationSummary};
use vestal_model::{Freshness, Models};
use vestal_scripted_model::{Model, ReplyRule, Script, ScriptedReply};
use vestal_tui::{KeyCode, KeyPress, Size};

use crate::fixture::{ChatFixture, Person, marker, processes_with, until};

/// A model that runs what follows `$ ` in the shell and repeats the rest.
pub(crate) fn shell() -> Script {
    Script::new()
        .rule(ReplyRule::when_user_contains("$ ").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call(
                "terminal",
                json!({"command": command.trim_start_matches("$ ")}),
            )
        }))
        .rule(ReplyRule::always().after_any_tool_results().reply_with(|request| {
            ScriptedReply::text(format!("heard {}", request.last_user_text().unwrap_or_default()))
        }))
}

/// Says something and waits for its answer.
pub(crate) async fn hears(person: &Person, words: &str) {
    person.submits(words);
    person.sees(&format!("heard {words}")).await;
    rests(person).await;
}

/// Waits until nothing runs: the line at the bottom counts no time.
pub(crate) async fn rests(person: &Person) {
    let is_time =
        |part: &str| part.strip_suffix('s').is_some_and(|time| time.parse::<u32>().is_ok());
    // Behind it may stand that the agent only plans.
    let counts = |row: &String| row.trim_end().split(" · ").any(is_time);
    person
        .sees_that("rest", |rows| {
            rows.iter().rfind(|row| !row.is_empty()).is_some_and(|row| !counts(row))
        })
        .await;
}

async fn conversations(fixture: &ChatFixture) -> Vec<ConversationSummary> {
    let store = ConversationStore::open(fixture.store_file()).await.unwrap();
    store.list(&ConversationFilter::default()).await.unwrap()
}

/// Returns what the model saw of a person in its last request.
pub(crate) fn seen(fixture: &ChatFixture) -> Vec<String> {
    let requests = fixture.model.requests();
    let messages = requests.last().unwrap().messages().to_vec();
    let reply = messages.iter().filter(|message| message["role"] == "user");
    reply.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_command_is_reported_once_and_is_no_part_of_the_next_message() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/modle gpt");
            person.sees("there is no command /modle").await;
            person.sees("did you mean /model?").await;
            hears(&person, "one").await;
            assert_eq!(seen(&fixture), ["one"]);
            // It can be put right.
            person.presses(KeyPress::plain(KeyCode::Up));
            person.presses(KeyPress::plain(KeyCode::Up));
            person
                .sees_that("the input", |rows| {
                    rows.iter().filter(|row| row.starts_with("› /modle gpt")).count() == 2
                })
                .await;
            person.leaves();
        })
        .await;
    assert_eq!(fixture.model.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_are_undone_for_good_and_sent_again() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/undo");
            person.sees("the conversation is empty").await;
            hears(&person, "one").await;
            hears(&person, "two").await;
            person.submits("/undo");
            person.sees("undid 1 turn (2 messages)").await;
            // What was said is in the input, to be said better.
            person.types(" and a half");
            person.presses(KeyPress::plain(KeyCode::Enter));
            person.sees("heard two and a half").await;
            rests(&person).await;
            assert_eq!(seen(&fixture), ["one", "two and a half"]);
            person.submits("/retry");
            fixture.model.wait_for_answers(4).await;
            rests(&person).await;
            assert_eq!(seen(&fixture), ["one", "two and a half"]);
            person.submits("/undo x");
            person.sees("\"x\" is not a number of turns").await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    assert_eq!(stored.len(), 4, "{stored:?}");
}

/// Waits until the chat has started to work in so many conversations.
async fn greets(person: &Person, times: usize) {
    until("another conversation", || {
        person.all().iter().filter(|row| row.starts_with("vestal · ")).count() >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_conversation_begins_without_what_was_allowed_and_the_old_one_is_gone_back_to() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            hears(&person, "one").await;
            person.submits("/yolo");
            person.sees("YOLO").await;
            person.submits("/new Another one");
            person.sees("a new conversation in the same sandbox").await;
            person.sees_no("YOLO").await;
            hears(&person, "two").await;
            assert_eq!(seen(&fixture), ["two"]);
            person.submits("/resume");
            person.sees("Which conversation?").await;
            person.sees("› one  ").await;
            person.presses(KeyPress::plain(KeyCode::Enter));
            person.sees_no("Enter chooses").await;
            greets(&person, 3).await;
            hears(&person, "three").await;
            assert_eq!(seen(&fixture), ["one", "three"]);
            person.submits("/resume Another one");
            greets(&person, 4).await;
            hears(&person, "four").await;
            assert_eq!(seen(&fixture), ["two", "four"]);
            person.submits("/resume nobody knows it");
            person.sees("there is no conversation \"nobody knows it\"").await;
            person.leaves();
        })
        .await;
    assert_eq!(conversations(&fixture).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_is_gone_on_with_and_named() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/branch");
            person.sees("nothing to branch from").await;
            hears(&person, "one").await;
            person.submits("/branch it's another way");
            person.sees("this is a branch").await;
            hears(&person, "two").await;
            assert_eq!(seen(&fixture), ["one", "two"]);
            person.submits("/title");
            person.sees("\"it's another way\"").await;
            person.submits("/title mine");
            person.sees("the title is now \"mine\"").await;
            person.submits("/branch mine");
            person.sees("already has the title \"mine\"").await;
            person.leaves();
        })
        .await;
    let found = conversations(&fixture).await;
    let titles: Vec<_> = found.iter().map(|found| found.conversation.title.clone()).collect();
    assert_eq!(titles, [Some("mine".to_owned()), Some("one".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_turn_runs_some_commands_act_at_once_and_others_wait() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("the whole answer")
        .chunked(9)
        .hold_after(1)]));
    fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("the whole").await;
            person.submits("/yolo on");
            person.sees("the agent no longer asks for approval").await;
            person.submits("/status");
            person.sees("turn running for").await;
            person.submits("/undo 1");
            person.sees("/undo cannot run during a turn").await;
            person
                .sees_that("the input", |rows| {
                    rows.iter().filter(|row| row.starts_with("› /undo 1")).count() == 2
                })
                .await;
            fixture.model.release();
            person.sees("the whole answer").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    assert_eq!(stored.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_interrupts_the_turn_and_ends_background_jobs_after_a_question() {
    let marker = marker();
    let command = format!("sleep {marker}");
    let started = command.clone();
    let fixture = ChatFixture::new(
        Script::new()
            .rule(ReplyRule::when_user_contains("start").reply(ScriptedReply::tool_call(
                "terminal",
                json!({"command": started, "background": true}),
            )))
            .rule(
                ReplyRule::when_user_contains("talk")
                    .reply(ScriptedReply::text("first words").hold_after(1)),
            )
            .rule(
                ReplyRule::always().after_any_tool_results().reply(ScriptedReply::text("it runs")),
            ),
    );
    fixture
        .play(async |person| {
            person.submits("/stop");
            person.sees("nothing to stop").await;
            person.submits("start");
            person.sees("it runs").await;
            rests(&person).await;
            person.submits("talk");
            person.sees("first words").await;
            person.submits("/stop");
            person.sees("interrupted").await;
            rests(&person).await;
            assert_eq!(processes_with(&marker).len(), 1);
            person.submits("/stop");
            person.sees("End 1 background job of this conversation?").await;
            person.submits("no");
            person.sees_no("[1] yes").await;
            person.submits("/stop");
            person.sees("[1] yes").await;
            assert_eq!(processes_with(&marker).len(), 1);
            person.submits("yes");
            person.sees("1 background job ended").await;
            until("the job is gone", || processes_with(&marker).is_empty()).await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_a_verb_is_that_verb() {
    let fixture = ChatFixture::new(Script::echo());
    fixture
        .play(async |person| {
            for (typed, ran) in [
                ("/model", "ran: model"),
                ("/model list --refresh", "ran: model list --refresh"),
                ("/model --global a:b", "ran: model set a:b"),
                ("/sessions", "ran: conversations list"),
                ("/sessions search 'two words'", "ran: conversations search two words"),
                ("/kanban create \"Write it\"", "ran: kanban create Write it"),
                ("/config", "ran: config show"),
                ("/profile list", "ran: profile list"),
                ("/jobs --all", "ran: jobs -t default --all"),
                ("/jobs k3f9", "ran: logs -f -t default k3f9"),
                ("/jobs kill k3f9", "ran: kill -t default k3f9"),
                ("/sandbox snapshot", "ran: snapshot -t default"),
                ("/sandbox snapshot mine --stop", "ran: snapshot -t default --name mine --stop"),
                ("/sandbox restore mine", "ran: restore default mine"),
                ("/sandbox fork other", "ran: fork default other"),
                ("/sandbox reset", "ran: rm --files -t default"),
            ] {
                person.submits(typed);
                person.sees_that(ran, |rows| rows.iter().any(|row| row.trim_end() == ran)).await;
            }
            person.submits("/sandbox fokr x");
            person.sees("did you mean /sandbox fork?").await;
            assert_eq!(person.lent.lock().unwrap().len(), 2 * 16);
            person.leaves();
        })
        .await;
    assert_eq!(fixture.model.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_is_asked_in_this_conversation_only() {
    let mut fixture = ChatFixture::new(Script::echo());
    let url = fixture.model.base_url();
    fixture = fixture.with(&format!("model.base_url={url}")).with("model.default=usual");
    fixture
        .play(async |person| {
            person.submits("/model other");
            person.sees("this conversation now uses custom:other").await;
            person.submits("hello");
            fixture.model.wait_for_answers(1).await;
            rests(&person).await;
            assert_eq!(fixture.model.requests()[0].model(), "other");
            person.submits("/model nobody:x y");
            person.sees("too many arguments").await;
            person.leaves();
        })
        .await;
    assert_eq!(conversations(&fixture).await[0].conversation.model, "other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slip_in_the_name_of_a_model_gets_the_nearest_one_that_is_listed() {
    let listed = [Model::new("lantern-2"), Model::new("beacon")];
    let mut fixture = ChatFixture::new(Script::echo().models(listed));
    let url = fixture.model.base_url();
    fixture = fixture.with(&format!("model.base_url={url}")).with("model.default=beacon");
    // Somebody has looked at the list before.
    let settings = fixture.settings();
    let endpoint = vestal_agent::settings::endpoints(&settings, None).unwrap().remove(0);
    let models = Models::new(vestal_agent::settings::model_options(&settings).unwrap()).unwrap();
    let lists = vestal_agent::settings::model_lists(&settings);
    lists.list(&models, &endpoint, Freshness::Refresh).await.unwrap();
    fixture
        .play(async |person| {
            person.submits("/model lantren-2");
            person.sees("custom does not list a model lantren-2").await;
            person.sees("did you mean /model lantern-2?").await;
            person.submits("/model custom:lantren-2");
            person.sees("this conversation now uses custom:lantren-2").await;
            person.submits("/model lantern-2");
            person.sees("this conversation now uses custom:lantern-2").await;
            person.types("/model custom:be");
            person.presses(KeyPress::plain(KeyCode::Tab));
            person.sees("/model custom:beacon").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_taken_and_given() {
    let fixture = ChatFixture::new(Script::echo());
    fixture
        .play(async |person| {
            person.submits("/tools disable terminl");
            person.sees("did you mean terminal?").await;
            person.submits("/tools disable terminal");
            person.sees("process, terminal disabled").await;
            person.submits("hello");
            fixture.model.wait_for_answers(1).await;
            rests(&person).await;
            person.submits("/tools");
            person.sees("✗ terminal").await;
            person.leaves();
        })
        .await;
    assert!(!fixture.model.requests()[0].tool_names().contains(&"terminal"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_conversation_goes_on_in_another_sandbox_and_the_model_gets_a_notice() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/sandbox");
            person.sees("default has no sandbox yet").await;
            // Also where nothing was said yet.
            person.submits("/sandbox switch third");
            person.sees("the agent now works in the sandbox of third").await;
            person.submits("/sandbox switch default");
            person.sees("the agent now works in the sandbox of default").await;
            person.submits("$ echo one > here; ls");
            person.sees("heard $ echo one").await;
            rests(&person).await;
            person.submits("/sandbox");
            person.sees("none (/sandbox snapshot creates one)").await;
            person.sees("local").await;
            person.submits("/sandbox switch other");
            person.sees("the agent now works in the sandbox of other").await;
            // What the model is told goes with what is said next.
            person.submits("two");
            person.sees("heard [The user has moved this conversation").await;
            rests(&person).await;
            let seen = seen(&fixture);
            assert!(seen.iter().any(|reply| reply.contains("the task other")), "{seen:?}");
            person.submits("/sandbox switch other");
            person.sees("already in the sandbox of other").await;
            person.leaves();
        })
        .await;
    assert_eq!(conversations(&fixture).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_and_state_are_shown_at_sixty_columns() {
    let mut fixture = ChatFixture::new(shell());
    fixture.size = Size { columns: 60, rows: 40 };
    fixture
        .play(async |person| {
            person.submits("/usage");
            person.sees("no model has answered").await;
            hears(&person, "one").await;
            // So narrow a line at the bottom has no room for the time it counts.
            vestal_testkit::until_async("the answer is on record", || async {
                conversations(&fixture).await.first().is_some_and(|summary| summary.messages == 2)
            })
            .await;
            person.submits("/usage");
            person.sees("scripted:scripted-model").await;
            person.sees("unknown (set model.prices)").await;
            person.submits("/status");
            person.sees("asked before dangerous commands").await;
            person.submits("/compress");
            person.sees("there is nothing to sum up").await;
            person.submits("/approvals");
            person.sees("there are no approvals for this conversation").await;
            person.submits("/help undo");
            person.sees("take back the last turn").await;
            person.submits("/help");
            person.sees("/help keys lists the keys.").await;
            let rows = person.all();
            assert!(rows.iter().all(|row| row.chars().count() <= 60), "{rows:?}");
            assert!(rows.iter().any(|row| row == "  /new         begin a new conversation in the same sandbox"));
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_listed_as_soon_as_one_is_begun() {
    let fixture = ChatFixture::new(Script::echo());
    fixture
        .play(async |person| {
            person.types("/");
            person.sees("/new").await;
            person.types("mod");
            person.sees_no("/new").await;
            person.presses(KeyPress::plain(KeyCode::Enter));
            person.sees("› /model").await;
            person.presses(KeyPress::control('u'));
            // What is written out is sent, though the list is open.
            person.submits("/yolo");
            person.sees("YOLO").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn help_ends_with_the_commands_and_names_the_way_to_the_keys() {
    let fixture = ChatFixture::new(Script::echo());
    fixture
        .play(async |person| {
            person.submits("/help");
            person.sees("/help keys lists the keys.").await;
            assert!(!person.all().join("\n").contains("Keys of the"));
            person.leaves();
        })
        .await;
}
