//! Building blocks of the transcript and the live area: pure functions from values to lines.

use std::time::Duration;

use vestal_agent::{ApprovalRequest, Question, Todo, TodoStatus};
use vestal_tui::{Line, Span, Style, diff, style};

use crate::format;
use crate::host::Trouble;
use crate::tool_output::Tail;

/// Widest prose, however wide the terminal is: longer lines are hard to read.
const PROSE: usize = 100;

/// Returns how wide prose is on a terminal of so many columns.
pub(crate) fn prose_width(columns: u16) -> usize {
    usize::from(columns).clamp(1, PROSE)
}

/// Wraps text, which may have several lines, one below the other.
pub(crate) fn wrapped(
    text: &str,
    width: usize,
    hanging: &str,
    line: impl Fn(usize, &str) -> Line,
) -> Vec<Line> {
    text.lines()
        .enumerate()
        .flat_map(|(number, text)| line(number, text).wrap(width, hanging))
        .collect()
}

/// Lines of what was said that are shown again; the rest is counted.
const MOST: usize = 200;

/// Shows what was said.
pub(crate) fn user(words: &str, width: usize) -> Vec<Line> {
    let total = words.lines().count();
    let mut lines: Vec<Line> = words
        .lines()
        .take(MOST)
        .enumerate()
        .flat_map(|(number, words)| {
            let mark = if number == 0 { Span::new("› ", style::BOLD) } else { Span::plain("  ") };
            Line::plain(words).prefixed(mark).wrap(width, "  ")
        })
        .collect();
    if total > MOST {
        let more = format!("  … {} more", format::count(total - MOST, "line"));
        lines.push(Line::styled(more, style::DIM));
    }
    lines
}

/// Shows words that wait for the model's next step.
pub(crate) fn queued(words: &str, columns: usize) -> Line {
    let mut lines = words.lines();
    let first = lines.next().unwrap_or_default();
    let more = match lines.count() {
        0 => String::new(),
        more => format!(" (+ {})", format::count(more, "line")),
    };
    let line = Line::styled(format!("› {first}{more} · queued"), style::DIM);
    line.cut(columns)
}

/// Says something that is good to know.
pub(crate) fn note(words: &str, width: usize) -> Vec<Line> {
    labelled("note", style::CYAN, words, width)
}

/// Says something that should be known.
pub(crate) fn warning(words: &str, width: usize) -> Vec<Line> {
    labelled("warning", style::YELLOW, words, width)
}

/// Says something in passing.
pub(crate) fn aside(words: &str, width: usize) -> Vec<Line> {
    wrapped(words, width, "  ", |_, text| Line::styled(text, style::DIM))
}

/// Says what went wrong and what to do about it.
pub(crate) fn trouble(trouble: &Trouble, width: usize) -> Vec<Line> {
    let mut lines = labelled("error", style::RED, &trouble.problem, width);
    for advice in &trouble.advice {
        lines.extend(wrapped(advice, width, "    ", |number, text| {
            let lead = if number == 0 { "  → " } else { "    " };
            Line::from_spans(vec![Span::new(lead, style::DIM), Span::plain(text)])
        }));
    }
    lines
}

fn labelled(label: &str, colour: Style, words: &str, width: usize) -> Vec<Line> {
    wrapped(words, width, "  ", |number, text| {
        let lead =
            if number == 0 { Span::new(format!("{label}: "), colour) } else { Span::plain("  ") };
        Line::plain(text).prefixed(lead)
    })
}

/// Lines of output that are shown of a call that has ended.
const TAIL: usize = 5;

/// Lines of a change that are shown.
const DIFF: usize = 40;

/// Lines of a failure's reason that are shown.
const REASON: usize = 6;

/// What turns while something runs.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Done<'a> {
    pub(crate) name: &'a str,
    pub(crate) summary: &'a str,
    pub(crate) is_error: bool,
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) tail: &'a Tail,
    /// What went wrong, if that is known and was not printed.
    pub(crate) reason: Option<&'a str>,
    /// How its command ended, if that is known.
    pub(crate) exit_code: Option<i64>,
    /// What it changed in files, as diffs.
    pub(crate) changes: &'a [String],
}

/// Shows a call that runs, in a line: what it is, how long it has run, and what
/// it printed last.
pub(crate) fn running(
    name: &str,
    summary: &str,
    elapsed: Duration,
    last: Option<&str>,
    frame: usize,
    columns: usize,
) -> Line {
    let mut line = Line::from_spans(vec![Span::new(SPINNER[frame % SPINNER.len()], style::CYAN)]);
    if !name.is_empty() {
        line.push(Span::plain(" "));
        line.push(Span::new(name, style::BOLD));
    }
    let elapsed = format!(" ({})", format::span(elapsed));
    // What it is about gives way to how long it has run and what it prints.
    let room = columns.saturating_sub(line.width() + elapsed.len() + 1);
    let room = if last.is_some() { room.min(columns * 2 / 5) } else { room };
    if !summary.is_empty() && room > 3 {
        line.push(Span::plain(" "));
        line.push(Span::plain(Line::plain(summary).cut(room).text()));
    }
    line.push(Span::new(elapsed, style::DIM));
    if let Some(last) = last {
        line.push(Span::new(format!(" │ {}", last.trim_start()), style::DIM));
    }
    line.cut(columns)
}

/// Shows a call that has ended: what it was, how it ended, the end of its
/// output, and what it changed.
pub(crate) fn ended(done: &Done<'_>) -> Vec<Line> {
    let (mark, colour) = if done.is_error { ("✗", style::RED) } else { ("✓", style::GREEN) };
    let mut head = Line::from_spans(vec![
        Span::new(mark, colour),
        Span::plain(" "),
        Span::new(done.name, style::BOLD),
    ]);
    if !done.summary.is_empty() {
        head.push(Span::plain(format!(" {}", done.summary)));
    }
    let exit = done.exit_code.filter(|code| *code != 0);
    let exit = exit.map(|code| format!("exit {code}, ")).unwrap_or_default();
    head.push(Span::new(format!(" ({exit}{})", format::took(done.took)), style::DIM));
    let mut lines = vec![head];
    let hidden = done.tail.count().saturating_sub(TAIL);
    if hidden > 0 {
        let more = if done.tail.is_cut() { "at least " } else { "" };
        let more =
            format!("  … {more}{} before (Ctrl-O shows them)", format::count(hidden, "line"));
        lines.push(Line::styled(more, style::DIM));
    }
    let printed = done.tail.last(TAIL);
    lines.extend(printed.iter().map(|line| Line::styled(format!("  {line}"), style::DIM)));
    if let Some(reason) = done.reason {
        let reason = reason.lines().filter(|line| !line.trim().is_empty()).take(REASON);
        lines.extend(reason.map(|line| Line::styled(format!("  {line}"), style::DIM)));
    }
    for change in done.changes {
        lines.extend(
            diff::render(change, DIFF).into_iter().map(|line| line.prefixed(Span::plain("  "))),
        );
    }
    lines
}

/// Items that are shown at once; `/status` shows all.
const SHOWN: usize = 20;

/// Shows the list, below the call that changed it.
pub(crate) fn todos(todos: &[Todo], width: usize) -> Vec<Line> {
    let item = |todo: &Todo| {
        let style = match todo.status {
            TodoStatus::InProgress => style::BOLD,
            TodoStatus::Pending => vestal_tui::Style::default(),
            TodoStatus::Completed | TodoStatus::Cancelled => style::DIM,
        };
        let content = todo.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!("  {} {content}", todo_mark(todo.status));
        wrapped(&words, width, "      ", |_, text| Line::styled(text, style))
    };
    let mut lines: Vec<Line> = todos.iter().take(SHOWN).flat_map(item).collect();
    if todos.len() > SHOWN {
        let more = format!("  … and {} more; /status shows all", todos.len() - SHOWN);
        lines.push(Line::styled(more, style::DIM));
    }
    lines
}

/// Returns how far an item is, as a mark.
pub(crate) const fn todo_mark(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "[ ]",
        TodoStatus::InProgress => "[>]",
        TodoStatus::Completed => "[x]",
        TodoStatus::Cancelled => "[-]",
    }
}

/// Rows of what is asked about that are seen at most.
const BODY: usize = 12;

/// Rows that a question leaves to what stands around it: the input and its
/// frame, the status, and one for what runs.
const AROUND: usize = 5;

/// Where and how a question is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) width: usize,
    /// Rows of the terminal.
    pub(crate) rows: u16,
    /// Whether its keys are heard: they are named only then.
    pub(crate) is_heard: bool,
    /// Whether all of it stands in the transcript.
    pub(crate) is_told: bool,
}

/// A question as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) lines: Vec<Line>,
    /// Whether a part of what is asked about is not seen.
    pub(crate) is_folded: bool,
}

/// Asks for an approval.
pub(crate) fn approval(request: &ApprovalRequest, left: Duration, frame: Frame) -> Shown {
    let width = frame.width;
    let reason = format!("The agent asks to do something that {}:", request.reason);
    let head = wrapped(&reason, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    let mut keys = Line::empty();
    let mut key = |letter: &str, rest: &str| {
        keys.push(Span::plain("["));
        keys.push(Span::new(letter, style::BOLD));
        keys.push(Span::plain(format!("]{rest}  ")));
    };
    key("o", "nce");
    key("c", "onversation");
    if request.may_last {
        key("a", "lways");
    }
    key("d", "eny");
    keys.push(Span::new(format!("· {} left", format::span(left)), style::DIM));
    let mut tail = keys.wrap(width, "  ");
    if request.may_last {
        let always = format!("always means: {}", request.pattern);
        tail.extend(wrapped(&always, width, "  ", |_, text| Line::styled(text, style::DIM)));
    }
    shown(head, action(request, width), tail, frame)
}

/// Returns all of what an approval is asked for.
pub(crate) fn action(request: &ApprovalRequest, width: usize) -> Vec<Line> {
    wrapped(&request.action, width, "    ", |_, text| Line::plain(text).prefixed(Span::plain("  ")))
}

/// Asks what the model wants to know.
pub(crate) fn clarification(question: &Question, frame: Frame) -> Shown {
    asked(&format!("The agent asks: {}", question.question), &question.choices, frame)
}

/// Asks what this program wants to know.
pub(crate) fn choice(question: &Question, frame: Frame) -> Shown {
    asked(&question.question, &question.choices, frame)
}

fn asked(question: &str, choices: &[String], frame: Frame) -> Shown {
    let width = frame.width;
    let body = wrapped(question, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    let mut tail = Vec::new();
    for (number, choice) in (1..).zip(choices) {
        let choice = Line::from_spans(vec![
            Span::plain("  ["),
            Span::new(number.to_string(), style::BOLD),
            Span::plain(format!("] {choice}")),
        ]);
        tail.extend(choice.wrap(width, "      "));
    }
    let how = if choices.is_empty() {
        "type the answer; Esc leaves it unanswered"
    } else {
        "type a number or other words; Esc leaves it unanswered"
    };
    if frame.is_heard {
        tail.push(Line::styled(how, style::DIM));
        return shown(Vec::new(), body, tail, frame);
    }
    // Choices are part of the question, how to answer is not.
    tail.push(Line::styled("…", style::DIM));
    shown(Vec::new(), body, tail, Frame { is_heard: true, ..frame })
}

/// Puts a question together. Where there is little room for what it is about,
/// that much is said: nobody approves of what they do not know to be there.
fn shown(head: Vec<Line>, body: Vec<Line>, tail: Vec<Line>, frame: Frame) -> Shown {
    let room = usize::from(frame.rows).saturating_sub(AROUND + head.len() + tail.len());
    let most = room.clamp(1, BODY);
    let hidden = body.len().saturating_sub(most);
    let is_folded = hidden > 0;
    let mut lines = head;
    lines.extend(body.into_iter().take(most));
    if is_folded {
        let whole = if frame.is_told { "all of it stands above" } else { "Ctrl-O shows all of it" };
        let more = format!("  … {} more; {whole}", format::count(hidden, "row"));
        lines.extend(Line::styled(more, style::YELLOW).wrap(frame.width, "    "));
    }
    if frame.is_heard {
        lines.extend(tail);
    } else {
        lines.push(Line::styled("…", style::DIM));
    }
    Shown { lines, is_folded }
}
