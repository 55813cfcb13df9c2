use std::sync::LazyLock;

use vestal_model::{Cost, TokenUsage};

use super::*;

/// All events of a test happen at this time, so no duration depends on the clock.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

fn events(
    live: &mut LiveTurn,
    tails: &OutputTails,
    events: impl IntoIterator<Item = TurnEvent>,
) -> String {
    let now = *NOW;
    let mut text = String::new();
    for event in events {
        for entry in live.take(event, now, tails, &mut |_| {}) {
            for line in entry.lines {
                text.push_str(line.text().trim_end());
                text.push('\n');
            }
        }
    }
    text
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text { text: text.to_owned() }
}

fn called(finish: FinishReason) -> TurnEvent {
    TurnEvent::ModelCalled {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: TokenUsage { input: 1200, output: 34, ..TokenUsage::default() },
        cost: Cost::Known { micro_usd: 700, source: vestal_model::CostSource::Prices },
        finish,
    }
}

fn started(call: &str, name: &str, summary: &str) -> TurnEvent {
    let (call, name, summary) = (call.to_owned(), name.to_owned(), summary.to_owned());
    TurnEvent::ToolStarted { call, name, summary }
}

fn ended(call: &str, name: &str, is_error: bool, preview: &str) -> TurnEvent {
    let (call, name, preview) = (call.to_owned(), name.to_owned(), preview.to_owned());
    TurnEvent::ToolEnded { call, name, is_error, took: Duration::from_millis(1234), preview }
}

fn live() -> (LiveTurn, OutputTails) {
    (LiveTurn::new(60, false), OutputTails::default())
}

#[test]
fn an_answer_that_was_cut_off_goes_on_where_it_stopped() {
    let (mut live, tails) = live();
    let printed = events(
        &mut live,
        &tails,
        [text("one two "), called(FinishReason::Length), text("three"), called(FinishReason::Stop)],
    );
    assert_eq!(printed, "one two three\n");
    assert_eq!((live.usage_totals.used, live.usage_totals.micro_usd), (1234, 1400));
}

#[test]
fn a_void_answer_is_reported_and_only_what_was_printed_counts_as_broken_off() {
    let (mut live, tails) = live();
    let discarded =
        || TurnEvent::Discarded { reason: "the stream broke".to_owned(), retry_after: None };
    assert_eq!(
        events(&mut live, &tails, [text("short"), discarded()]),
        "warning: the stream broke\n"
    );
    let long: Vec<String> = (0..30).map(|number| format!("paragraph {number}\n\n")).collect();
    let long = long.concat();
    let printed = events(
        &mut live,
        &tails,
        [text(&long), discarded(), text("anew"), called(FinishReason::Stop)],
    );
    assert!(printed.contains("paragraph 0\n"), "{printed}");
    assert!(!printed.contains("paragraph 29"), "{printed}");
    assert!(printed.contains("the answer starts over)\nanew\n"), "{printed}");
}

#[test]
fn a_failed_call_says_why() {
    let (mut live, tails) = live();
    let printed = events(
        &mut live,
        &tails,
        [
            started("1", "read_file", "a.txt"),
            ended("1", "read_file", true, r#"{"error":"a.txt: no such file"}"#),
            ended("2", "nonsense", true, "there is no tool \"nonsense\""),
            started("3", "terminal", "make"),
            ended("3", "terminal", true, r#"{"output":"","exit_code":2,"error":null}"#),
            started("4", "patch", "b"),
            ended("4", "patch", true, r#"{"error":"a long \"reas"#),
        ],
    );
    insta::assert_snapshot!(printed, @r#"
    ✗ read_file a.txt (1.2s)
      a.txt: no such file
    ✗ nonsense (1.2s)
      there is no tool "nonsense"
    ✗ terminal make (exit 2, 1.2s)
    ✗ patch b (1.2s)
      a long "reas…
    "#);
}

#[test]
fn calls_that_run_together_end_in_any_order_each_with_its_own_output() {
    let (mut live, tails) = live();
    events(&mut live, &tails, [started("1", "terminal", "one"), started("2", "terminal", "two")]);
    tails.push("1", "of one\n");
    tails.push("2", "of two\n");
    let printed = events(&mut live, &tails, [ended("2", "terminal", false, "{}")]);
    assert_eq!(printed, "✓ terminal two (1.2s)\n  of two\n");
    assert_eq!(live.tools.len(), 1);
    assert!(live.waiting.is_none(), "one still runs");
    let printed = events(&mut live, &tails, [ended("1", "terminal", false, "{}")]);
    assert_eq!(printed, "✓ terminal one (1.2s)\n  of one\n");
    assert!(matches!(live.waiting, Some((_, WaitingFor::Model))));
}

#[test]
fn what_the_model_thinks_is_hidden_until_somebody_wants_it() {
    let thought = |text: &str| TurnEvent::Reasoning { text: text.to_owned() };
    let (mut live, tails) = live();
    assert_eq!(
        events(&mut live, &tails, [thought("hm\n"), text("yes"), called(FinishReason::Stop)]),
        "yes\n"
    );
    live.shows_reasoning = true;
    let printed = events(
        &mut live,
        &tails,
        [thought("hm, "), thought("well\nso"), text("yes"), called(FinishReason::Stop)],
    );
    assert_eq!(printed, "  hm, well\n  so\nyes\n");
}

#[test]
fn a_diff_is_shown_with_its_call_and_kept_to_be_unfolded() {
    let (mut live, tails) = live();
    let diff = "--- /dev/null\n+++ a\n@@ -0,0 +1,2 @@\n+one\n+two\n".to_owned();
    let changed = TurnEvent::FileChanged { call: "1".to_owned(), path: "a".to_owned(), diff };
    let mut kept = Vec::new();
    let mut printed = Vec::new();
    for event in [started("1", "write_file", "a"), changed, ended("1", "write_file", false, "{}")] {
        printed.extend(live.take(event, Instant::now(), &tails, &mut |call| kept.push(call)));
    }
    assert_eq!(printed.len(), 1);
    assert!(printed[0].lines.iter().any(|line| line.text().contains("two")), "{printed:?}");
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].changes.len(), 1);
}

#[test]
fn children_of_children_are_named_by_their_place() {
    let (mut live, tails) = live();
    let id = |number: u32| -> ConversationId {
        format!("20261115-10300{number}-k3f9ab").parse().unwrap()
    };
    let child = |number: u32, index: usize, event: TurnEvent| TurnEvent::Child {
        conversation: id(number),
        index,
        event: Box::new(event),
    };
    let outcome = || TurnEvent::TurnEnded { outcome: "failed".to_owned() };
    events(
        &mut live,
        &tails,
        [
            started("d", "delegate_task", "parts"),
            child(1, 0, started("x", "terminal", "make")),
            child(1, 0, child(2, 1, started("y", "read_file", "b"))),
        ],
    );
    let labels: Vec<&str> = live.children.iter().map(|child| child.label.as_str()).collect();
    assert_eq!(labels, ["child 1", "child 1.2"]);
    let printed = events(&mut live, &tails, [child(1, 0, child(2, 1, outcome()))]);
    assert_eq!(printed, "  ✗ child 1.2 failed (0ms)\n");
    assert_eq!(live.children.len(), 1);
}

#[test]
fn words_that_reached_the_model_are_no_longer_queued() {
    let (mut live, tails) = live();
    let typed = |text: &str, shown: &str| Submission { text: text.into(), shown: shown.into() };
    live.queued = vec![typed("a\nlong\npaste", "[pasted 3 lines]"), typed("b", "b")];
    let printed =
        events(&mut live, &tails, [TurnEvent::Steered { text: "a\nlong\npaste".to_owned() }]);
    // As it was shown when it was typed.
    assert_eq!((printed.as_str(), live.queued.len()), ("› [pasted 3 lines]\n", 1));
    live.retain_queued(vec!["b".to_owned(), "c".to_owned()]);
    assert_eq!(live.queued, [typed("b", "b"), typed("c", "c")]);
}
