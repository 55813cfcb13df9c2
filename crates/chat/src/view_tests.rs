use vestal_agent::{ApprovalRequest, Question, Todo, TodoStatus, TurnEvent};
use vestal_tui::{Colour, Editor, History};

use super::*;
use crate::cells::{self, EndedTool};
use crate::output::OutputTail;

/// The widths at which everything must fit.
const WIDTHS: [u16; 3] = [60, 80, 140];

fn since(now: Instant, seconds: u64) -> Instant {
    now.checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn busy_status() -> StatusLine {
    StatusLine {
        model: "some/model".to_owned(),
        used: 12_400,
        context_window: Some(200_000),
        cost_micro_usd: Some(42_000),
        is_cost_partial: false,
        sandbox: "native/default".to_owned(),
        state: "busy",
        jobs: 2,
        reasoning: String::new(),
        is_planning: false,
        is_yolo: true,
        elapsed: Some(Duration::from_secs(12)),
    }
}

/// A live area with every part.
fn busy(columns: u16, rows: u16, question: Vec<Line>) -> LiveArea {
    let now = Instant::now();
    let tails = OutputTails::default();
    let mut live = LiveTurn::new(cells::prose_width(columns), false);
    let started = |call: &str, name: &str, summary: &str| TurnEvent::ToolStarted {
        call: call.to_owned(),
        name: name.to_owned(),
        summary: summary.to_owned(),
    };
    let child = TurnEvent::Child {
        conversation: "20261115-103001-k3f9ab".parse().unwrap(),
        index: 0,
        event: Box::new(started("c", "search_files", "TODO in the whole tree of sources")),
    };
    for event in [
        started("1", "terminal", "cargo test --workspace --all-features -- --nocapture"),
        started("2", "delegate_task", "the north part"),
        child,
    ] {
        live.take(event, since(now, 12), &tails, &mut |_| {});
    }
    live.take(
        TurnEvent::Text {
            text: "The tests of `wire` pass, those of\n\n- guest\n- sand".to_owned(),
        },
        since(now, 1),
        &tails,
        &mut |_| {},
    );
    tails.push("1", "running 41 tests\ntest frames::a_frame_is_read_in_pieces ... ok\n");
    let mut editor = Editor::new(History::in_memory());
    editor.paste("what is being\nwritten");
    let input = editor.view(columns, input_rows(rows), &Span::new("› ", style::BOLD));
    compose(&Scene {
        columns,
        rows,
        now,
        epoch: now,
        live: &live,
        outside: None,
        tails: &tails,
        shows_more_output: false,
        todos: Vec::new(),
        queued: vec!["and look at the board, too\nplease".to_owned()],
        question,
        input,
        last: Some(EntryKind::User),
        hint: None,
        status: &busy_status(),
    })
}

fn drawn(view: &LiveArea, colour: Colour) -> String {
    let mut text = String::new();
    for (row, line) in view.lines.iter().enumerate() {
        let shown = match colour {
            Colour::On => line.to_ansi(colour).replace('\x1b', "^"),
            Colour::Off => line.to_ansi(colour),
        };
        let cursor = match view.cursor {
            Some((at, column)) if at == row => format!("   <- {column}"),
            _ => String::new(),
        };
        text.push_str(shown.trim_end());
        text.push_str(&cursor);
        text.push('\n');
    }
    text
}

#[test]
fn the_live_area_at_60_80_and_140_columns() {
    for columns in WIDTHS {
        let view = busy(columns, 30, Vec::new());
        insta::assert_snapshot!(format!("busy_{columns}"), drawn(&view, Colour::Off));
    }
}

#[test]
fn the_live_area_in_colour() {
    insta::assert_snapshot!("busy_80_colour", drawn(&busy(80, 30, Vec::new()), Colour::On));
}

fn request() -> ApprovalRequest {
    ApprovalRequest {
        action: "rm -rf build\nsudo systemctl restart a-service-with-a-rather-long-name.service"
            .to_owned(),
        reason: "deletes a directory with all that is in it".to_owned(),
        pattern: "rm -rf *".to_owned(),
        may_last: true,
    }
}

fn frame(columns: u16, rows: u16) -> cells::QuestionFrame {
    let width = cells::prose_width(columns);
    cells::QuestionFrame { width, rows, is_armed: true, is_printed: false }
}

#[test]
fn nobody_is_asked_to_approve_of_something_without_seeing_that_there_is_more_of_it() {
    let padding = "x".repeat(5_000);
    for action in [format!("rm -rf ~ # {padding}"), "rm -rf ~\n".repeat(100)] {
        let long = ApprovalRequest { action, ..request() };
        for (columns, rows) in [(80, 24), (60, 14), (200, 50)] {
            let shown = cells::approval(&long, Duration::from_secs(9), frame(columns, rows));
            assert!(shown.is_folded);
            let view = busy(columns, rows, shown.lines);
            let seen = drawn(&view, Colour::Off);
            assert!(seen.contains("rm -rf ~"), "{columns}x{rows}\n{seen}");
            assert!(seen.contains("more; Ctrl-O"), "{columns}x{rows}\n{seen}");
            assert!(seen.contains("[o]nce"), "{columns}x{rows}\n{seen}");
        }
    }
    let shown = cells::approval(&request(), Duration::from_secs(9), frame(80, 24));
    assert!(!shown.is_folded);
}

#[test]
fn questions_at_60_80_and_140_columns() {
    for columns in WIDTHS {
        let left = Duration::from_secs(58);
        let frame = frame(columns, 40);
        let mut question = cells::approval(&request(), left, frame).lines;
        question.push(Line::empty());
        let clarification = cells::clarification(
            &Question {
                question: "Which of the two ways shall I go, given that both break something?"
                    .to_owned(),
                choices: vec!["the old one".to_owned(), "the new one".to_owned()],
            },
            frame,
        );
        question.extend(clarification.lines);
        let view = busy(columns, 40, question);
        insta::assert_snapshot!(format!("asking_{columns}"), drawn(&view, Colour::Off));
    }
}

#[test]
fn the_transcript_at_60_80_and_140_columns() {
    for columns in WIDTHS {
        let width = cells::prose_width(columns);
        let mut tail = OutputTail::default();
        for number in 1..=12 {
            tail.push(&format!("test case_{number} ... ok\n"));
        }
        let diff = "--- src/a.rs\n+++ src/a.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    old();\n+    new();\n }\n";
        let mut lines = cells::user(
            "run the tests, and mind that they take a long time on this machine\nthen fix them",
            width,
        );
        lines.extend(cells::ended(&EndedTool {
            name: "terminal",
            summary: "cargo test",
            is_error: true,
            took: Duration::from_millis(12_345),
            tail: &tail,
            reason: None,
            exit_code: Some(101),
            changes: &[],
        }));
        lines.extend(cells::ended(&EndedTool {
            name: "patch",
            summary: "src/a.rs",
            is_error: false,
            took: Duration::from_millis(7),
            tail: &OutputTail::default(),
            reason: None,
            exit_code: None,
            changes: &[diff.to_owned()],
        }));
        lines.extend(cells::note(
            "summarised the beginning of the conversation (12 messages)",
            width,
        ));
        lines.extend(cells::warning(
            "settings changed since the sandbox was made: terminal.container_memory",
            width,
        ));
        lines.extend(cells::error(
            &crate::host::ChatError {
                problem: "the provider scripted refused the key (HTTP 401)".to_owned(),
                advice: vec![
                    "check OPENROUTER_API_KEY in .env".to_owned(),
                    "/retry tries again".to_owned(),
                ],
            },
            width,
        ));
        let view = LiveArea { lines, cursor: None };
        insta::assert_snapshot!(format!("transcript_{columns}"), drawn(&view, Colour::Off));
    }
}

#[test]
fn nothing_is_ever_wider_or_higher_than_the_terminal() {
    for columns in [1, 2, 3, 7, 20, 59, 60, 80, 200] {
        for rows in [1, 2, 3, 4, 6, 10, 24] {
            let left = Duration::from_secs(9);
            let question = cells::approval(&request(), left, frame(columns, rows)).lines;
            let view = busy(columns, rows, question);
            assert!(
                view.lines.len() <= usize::from(rows).saturating_sub(1).max(1),
                "{columns}x{rows}"
            );
            for line in &view.lines {
                assert!(line.width() <= usize::from(columns), "{columns}x{rows}: {}", line.text());
            }
            let (row, column) = view.cursor.unwrap_or_default();
            assert!(row < view.lines.len().max(1) && column < usize::from(columns));
        }
    }
}

#[test]
fn what_a_tool_prints_cannot_command_the_terminal() {
    let line =
        cells::running("terminal", "x\x1b[2J", Duration::ZERO, Some("\x1b]0;title\x07"), 0, 80);
    assert!(!line.to_ansi(Colour::Off).contains(['\x1b', '\x07']), "{}", line.text());
}

fn status() -> StatusLine {
    StatusLine {
        model: "some/model".to_owned(),
        used: 12_400,
        context_window: Some(200_000),
        cost_micro_usd: Some(42_000),
        is_cost_partial: false,
        sandbox: "native/default".to_owned(),
        state: "up",
        jobs: 2,
        reasoning: String::new(),
        is_planning: false,
        is_yolo: false,
        elapsed: Some(Duration::from_secs(12)),
    }
}

#[test]
fn it_says_all_there_is_where_there_is_room() {
    assert_eq!(
        status().line(140).text(),
        "some/model · context 12k/200k (6%) · $0.04 · native/default (up) · 2 jobs · Esc interrupts · 12s"
    );
}

#[test]
fn what_does_not_fit_is_left_out_from_the_right() {
    let status = StatusLine { elapsed: None, ..status() };
    for columns in 0..100 {
        let line = status.line(columns);
        assert!(line.width() <= columns, "{columns}: {}", line.text());
        assert!(status.line(140).text().starts_with(line.text().trim_end_matches('…')));
    }
    assert_eq!(status.line(60).text(), "some/model · context 12k/200k (6%) · $0.04");
}

#[test]
fn how_to_interrupt_is_seen_while_something_runs() {
    for columns in 40..140 {
        let line = status().line(columns).text();
        assert!(line.ends_with("Esc interrupts · 12s"), "{columns}: {line}");
    }
    assert!(!StatusLine { elapsed: None, ..status() }.line(140).text().contains("Esc"));
}

#[test]
fn that_nothing_is_asked_about_is_always_seen() {
    let status = StatusLine { is_yolo: true, ..status() };
    for columns in 4..140 {
        assert!(status.line(columns).text().ends_with("YOLO"), "{columns}");
    }
}

#[test]
fn unknown_values_are_left_out() {
    assert_eq!(StatusLine { model: "m".to_owned(), ..StatusLine::default() }.line(80).text(), "m");
    let status = StatusLine {
        used: 900,
        cost_micro_usd: Some(1),
        is_cost_partial: true,
        ..StatusLine::default()
    };
    assert_eq!(status.line(80).text(), "context 900 · ≥$0.0000");
}

fn todos(statuses: &[TodoStatus]) -> Vec<Todo> {
    let todo = |(number, status): (usize, &TodoStatus)| Todo {
        id: number.to_string(),
        content: format!("step\n{number}"),
        status: *status,
    };
    statuses.iter().enumerate().map(todo).collect()
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::text).collect()
}

#[test]
fn the_list_says_what_is_done_now_and_next_in_the_room_that_there_is() {
    use TodoStatus::{Cancelled, Completed, InProgress, Pending};
    let list = todos(&[Completed, Cancelled, Pending, InProgress, Pending]);
    assert_eq!(
        texts(&cells::todo_panel(&list, 80, 24)),
        ["to do · 1 of 4 done", "  [>] step 3", "  [ ] step 2", "  [ ] step 4"]
    );
    assert_eq!(texts(&cells::todo_panel(&list, 80, 12)), ["to do · 1 of 4 done", "  [>] step 3"]);
    assert_eq!(texts(&cells::todo_panel(&list, 30, 9)), ["to do · 1 of 4 done · [>] ste…"]);
    assert!(cells::todo_panel(&todos(&[Completed, Cancelled]), 80, 24).is_empty());
}

#[test]
fn only_what_changed_in_the_list_is_printed() {
    use TodoStatus::{Completed, InProgress, Pending};
    let before = todos(&[InProgress, Pending, Pending]);
    let now = todos(&[Completed, InProgress, Pending]);
    assert_eq!(
        texts(&cells::todo_changes(&[], &before, 80)),
        ["  [>] step 0", "  [ ] step 1", "  [ ] step 2"]
    );
    assert_eq!(
        texts(&cells::todo_changes(&before, &now, 80)),
        ["  [x] step 0", "  [>] step 1", "  1 of 3 done"]
    );
    assert_eq!(cells::todo_changes(&now, &now, 80), Vec::new(), "it was only read");
    assert_eq!(texts(&cells::todo_changes(&now, &[], 80)), ["  the to-do list is empty now"]);
    assert_eq!(texts(&cells::todo_changes(&now, &now[..2], 80)), ["  1 of 2 done"]);
}

#[test]
fn plan_mode_and_how_much_the_model_thinks_are_always_seen() {
    let mut status = busy_status();
    status.is_planning = true;
    status.reasoning = "high".to_owned();
    for columns in [30, 60, 80, 140] {
        let line = status.line(columns).text();
        assert!(line.ends_with(" · PLAN · YOLO"), "{line}");
        assert!(line.chars().count() <= columns, "{line}");
    }
    assert!(status.line(140).text().starts_with("some/model high · context"));
}
