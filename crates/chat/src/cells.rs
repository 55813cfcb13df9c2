//! Building blocks of the transcript and the live area: pure functions from values to lines.

use std::time::Duration;

use vestal_agent::{ApprovalRequest, Question, Todo, TodoStatus};
use vestal_tui::{Line, Picker, Span, Style, diff, format, style};

use crate::host::ChatError;
use crate::output::OutputTail;

/// Maximum width of prose; longer lines are hard to read.
const PROSE: usize = 100;

/// Returns the width of prose on a terminal.
pub(crate) fn prose_width(columns: u16) -> usize {
    usize::from(columns).clamp(1, PROSE)
}

/// Wraps each line of a text.
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

/// Lines of a user message that are shown; the rest is counted.
const MOST: usize = 200;

/// Renders a user message.
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

/// Renders a queued message.
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

/// Prints a note.
pub(crate) fn note(words: &str, width: usize) -> Vec<Line> {
    labelled("note", style::CYAN, words, width)
}

/// Prints a warning.
pub(crate) fn warning(words: &str, width: usize) -> Vec<Line> {
    labelled("warning", style::YELLOW, words, width)
}

/// Renders dimmed text.
pub(crate) fn dimmed(words: &str, width: usize) -> Vec<Line> {
    wrapped(words, width, "  ", |_, text| Line::styled(text, style::DIM))
}

/// Renders an error with its advice.
pub(crate) fn error(error: &ChatError, width: usize) -> Vec<Line> {
    let mut lines = labelled("error", style::RED, &error.problem, width);
    for advice in &error.advice {
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

/// Lines of output that are shown for an ended call.
const TAIL: usize = 5;

/// Lines of a diff that are shown.
const DIFF: usize = 40;

/// Lines of a failure's reason that are shown.
const REASON: usize = 6;

/// Frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// An ended tool call.
#[derive(Debug)]
pub(crate) struct EndedTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) summary: &'a str,
    pub(crate) is_error: bool,
    pub(crate) took: Duration,
    /// Its output.
    pub(crate) tail: &'a OutputTail,
    /// Why it failed, if known and not in the output.
    pub(crate) reason: Option<&'a str>,
    /// Exit code of its command, if known.
    pub(crate) exit_code: Option<i64>,
    /// Diffs of the files it changed.
    pub(crate) changes: &'a [String],
}

/// Renders a running call as one line: summary, duration, last line of output.
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
    let elapsed = format!(" ({})", format::clock(elapsed));
    // The summary is cut first.
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

/// Renders an ended call: summary, result, end of its output, and diffs.
pub(crate) fn ended(done: &EndedTool<'_>) -> Vec<Line> {
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

/// Items that are shown; `/status` shows all.
const SHOWN: usize = 20;

/// Renders what has changed in the to-do list; nothing if nothing has.
pub(crate) fn todo_changes(before: &[Todo], now: &[Todo], width: usize) -> Vec<Line> {
    let changed: Vec<&Todo> = now.iter().filter(|todo| !before.contains(todo)).collect();
    let is_shorter = before.iter().any(|old| now.iter().all(|new| new.id != old.id));
    if now.is_empty() && is_shorter {
        return vec![Line::styled("  the to-do list is empty now", style::DIM)];
    }
    let mut lines: Vec<Line> =
        changed.iter().take(SHOWN).flat_map(|todo| todo_lines(todo, width)).collect();
    if changed.len() > SHOWN {
        let more = format!("  … and {} more; /status shows all", changed.len() - SHOWN);
        lines.push(Line::styled(more, style::DIM));
    }
    // Of a list that is seen for the first time nothing can be told apart from this.
    if !before.is_empty() && (!lines.is_empty() || is_shorter) {
        lines.push(Line::styled(format!("  {}", todo_count(now)), style::DIM));
    }
    lines
}

fn todo_lines(todo: &Todo, width: usize) -> Vec<Line> {
    let style = match todo.status {
        TodoStatus::InProgress => style::BOLD,
        TodoStatus::Pending => vestal_tui::Style::default(),
        TodoStatus::Completed | TodoStatus::Cancelled => style::DIM,
    };
    let words = format!("  {} {}", todo_mark(todo.status), one_line(&todo.content));
    wrapped(&words, width, "      ", |_, text| Line::styled(text, style))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Counts what is done: `2 of 5 done`.
fn todo_count(todos: &[Todo]) -> String {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let wanted = todos.iter().filter(|todo| todo.status != TodoStatus::Cancelled).count();
    format!("{done} of {wanted} done")
}

/// Rows that the to-do list has while a turn runs.
const TODO_ROWS: usize = 5;

/// Renders the to-do list for the live area: how much is done, and what is done now and next. It is
/// empty when nothing is left to do.
pub(crate) fn todo_panel(todos: &[Todo], columns: usize, rows: u16) -> Vec<Line> {
    let is_open =
        |todo: &&Todo| matches!(todo.status, TodoStatus::InProgress | TodoStatus::Pending);
    let mut open: Vec<&Todo> = todos.iter().filter(is_open).collect();
    if open.is_empty() {
        return Vec::new();
    }
    // What is being done comes first, else in the order of work.
    open.sort_by_key(|todo| todo.status != TodoStatus::InProgress);
    let most = (usize::from(rows) / 5).clamp(1, TODO_ROWS);
    let head = Line::styled(format!("to do · {}", todo_count(todos)), style::DIM);
    let item = |todo: &Todo| {
        let style = match todo.status {
            TodoStatus::InProgress => style::BOLD,
            _ => style::DIM,
        };
        let words = format!("{} {}", todo_mark(todo.status), one_line(&todo.content));
        Line::styled(words, style)
    };
    if most == 1 {
        let mut line = head;
        if let Some(first) = open.first() {
            line.push(Span::new(" · ", style::DIM));
            line.append(item(first));
        }
        return vec![line.cut(columns)];
    }
    let items = open.into_iter().take(most - 1);
    let items = items.map(|todo| item(todo).prefixed(Span::plain("  ")).cut(columns));
    std::iter::once(head.cut(columns)).chain(items).collect()
}

/// Returns the mark of a status.
pub(crate) const fn todo_mark(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "[ ]",
        TodoStatus::InProgress => "[>]",
        TodoStatus::Completed => "[x]",
        TodoStatus::Cancelled => "[-]",
    }
}

/// Maximum rows of the subject of a question.
const BODY: usize = 12;

/// Rows reserved for the input, its frame, the status line, and one row of running work.
const AROUND: usize = 5;

/// How a question is rendered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuestionFrame {
    pub(crate) width: usize,
    /// Rows of the terminal.
    pub(crate) rows: u16,
    /// Whether it accepts keys; they are shown only then.
    pub(crate) is_armed: bool,
    /// Whether it was printed in full.
    pub(crate) is_printed: bool,
}

/// A rendered question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QuestionView {
    pub(crate) lines: Vec<Line>,
    /// Whether part of its subject is hidden.
    pub(crate) is_folded: bool,
}

/// Renders a request for approval.
pub(crate) fn approval(
    request: &ApprovalRequest,
    left: Duration,
    frame: QuestionFrame,
) -> QuestionView {
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
    keys.push(Span::new(format!("· {} left", format::clock(left)), style::DIM));
    let mut tail = keys.wrap(width, "  ");
    if request.may_last {
        let always = format!("always approves: {}", request.pattern);
        tail.extend(wrapped(&always, width, "  ", |_, text| Line::styled(text, style::DIM)));
    }
    shown(head, action(request, width), tail, frame)
}

/// Renders the action that needs approval, in full.
pub(crate) fn action(request: &ApprovalRequest, width: usize) -> Vec<Line> {
    wrapped(&request.action, width, "    ", |_, text| Line::plain(text).prefixed(Span::plain("  ")))
}

/// Renders a question of the model.
pub(crate) fn clarification(question: &Question, frame: QuestionFrame) -> QuestionView {
    question_view(&format!("The agent asks: {}", question.question), &question.choices, frame)
}

/// Renders a question of a slash command.
pub(crate) fn choice(question: &Question, frame: QuestionFrame) -> QuestionView {
    question_view(&question.question, &question.choices, frame)
}

/// Rows of a list to choose from.
const LIST: usize = 12;

/// Renders a list to choose from; what is typed to narrow it is the input.
pub(crate) fn picker(title: &str, picker: &Picker, frame: QuestionFrame) -> QuestionView {
    let width = frame.width;
    let mut lines = wrapped(title, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    let room = usize::from(frame.rows).saturating_sub(AROUND + lines.len());
    lines.extend(picker.lines(width, room.clamp(1, LIST)));
    lines.push(Line::styled("Enter chooses · Esc cancels", style::DIM).cut(width));
    QuestionView { lines, is_folded: false }
}

fn question_view(question: &str, choices: &[String], frame: QuestionFrame) -> QuestionView {
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
        "type the answer; Esc skips the question"
    } else {
        "type a number or another answer; Esc skips the question"
    };
    if frame.is_armed {
        tail.push(Line::styled(how, style::DIM));
        return shown(Vec::new(), body, tail, frame);
    }
    // The choices are part of the question; the hint is not.
    tail.push(Line::styled("…", style::DIM));
    shown(Vec::new(), body, tail, QuestionFrame { is_armed: true, ..frame })
}

/// Assembles a question. Hidden rows are counted, so that nobody approves something without
/// knowing that there is more of it.
fn shown(head: Vec<Line>, body: Vec<Line>, tail: Vec<Line>, frame: QuestionFrame) -> QuestionView {
    let room = usize::from(frame.rows).saturating_sub(AROUND + head.len() + tail.len());
    let most = room.clamp(1, BODY);
    let hidden = body.len().saturating_sub(most);
    let is_folded = hidden > 0;
    let mut lines = head;
    lines.extend(body.into_iter().take(most));
    if is_folded {
        let whole =
            if frame.is_printed { "shown in full above" } else { "Ctrl-O shows it in full" };
        let more = format!("  … {} more; {whole}", format::count(hidden, "row"));
        lines.extend(Line::styled(more, style::YELLOW).wrap(frame.width, "    "));
    }
    if frame.is_armed {
        lines.extend(tail);
    } else {
        lines.push(Line::styled("…", style::DIM));
    }
    QuestionView { lines, is_folded }
}
