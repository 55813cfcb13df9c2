//! What happens in a turn, as the editor shows it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde_json::Value;
use vestal_agent::{Notebook, Todo, TodoStatus, TurnEvent};

use crate::client::EditorClient;
use crate::limits::{CHANGES_BYTES, OUTPUT_BYTES, OUTPUT_EVERY};
use crate::options::SessionModes;
use crate::paths::SharedFiles;
use crate::protocol::{
    CallStatus, ContentBlock, Location, PlanEntry, SessionUpdate, ShownCall, ToolCallUpdate,
    ToolContent, ToolKind,
};

/// What a session shows its client. It is there before the session is: who may be asked is needed to
/// open the conversation, which makes the session's name.
#[derive(Debug)]
pub(crate) struct SessionView {
    client: EditorClient,
    session: OnceLock<Arc<str>>,
    shared: OnceLock<SharedFiles>,
    notebook: OnceLock<Notebook>,
    modes: OnceLock<SessionModes>,
    state: Mutex<ViewState>,
}

#[derive(Debug, Default)]
struct ViewState {
    /// Calls that were shown. Their names come from here: those of providers come again.
    calls: u64,
    /// Calls under way, by the name that the provider gave them.
    running: HashMap<String, RunningCall>,
    /// Whether words of an answer were shown that may still be taken back.
    has_spoken: bool,
}

#[derive(Debug)]
struct RunningCall {
    id: String,
    tool: String,
    summary: String,
    /// The end of what it printed.
    output: String,
    shown_at: Option<Instant>,
    changes: Vec<ToolContent>,
    locations: Vec<Location>,
}

impl SessionView {
    pub(crate) fn new(client: EditorClient) -> Arc<Self> {
        Arc::new(Self {
            client,
            session: OnceLock::new(),
            shared: OnceLock::new(),
            notebook: OnceLock::new(),
            modes: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Names the session, says which files its editor sees, and where the model's list is.
    pub(crate) fn begin(
        &self,
        session: Arc<str>,
        shared: SharedFiles,
        notebook: Notebook,
        modes: SessionModes,
    ) {
        // A session is named once.
        self.session.set(session).ok();
        self.shared.set(shared).ok();
        self.notebook.set(notebook).ok();
        self.modes.set(modes).ok();
    }

    pub(crate) fn client(&self) -> &EditorClient {
        &self.client
    }

    pub(crate) fn session(&self) -> Option<&Arc<str>> {
        self.session.get()
    }

    pub(crate) fn shared(&self) -> &SharedFiles {
        self.shared.get().unwrap_or(&SharedFiles::None)
    }

    pub(crate) fn send(&self, update: SessionUpdate) {
        if let Some(session) = self.session.get() {
            self.client.update(session, update);
        }
    }

    /// Shows words of the program.
    pub(crate) fn say(&self, words: impl Into<String>) {
        self.send(SessionUpdate::AgentMessageChunk { content: ContentBlock::text(words) });
    }

    /// Shows something that is not the model's answer.
    pub(crate) fn note(&self, words: &str) {
        let content = ContentBlock::text(format!("\n[{words}]\n"));
        self.send(SessionUpdate::AgentThoughtChunk { content });
    }

    /// Returns a name for a call that no other has.
    pub(crate) fn new_call(&self) -> String {
        self.lock().new_call()
    }

    /// Returns the call under way that does this, or the only one.
    pub(crate) fn call_doing(&self, action: &str) -> Option<String> {
        let state = self.lock();
        // Summaries are cut and have their blanks joined.
        let words = action.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_it = |call: &&RunningCall| {
            let summary = call.summary.trim_end_matches('…');
            !summary.is_empty() && words.contains(summary)
        };
        let mut running = state.running.values();
        let found = running.clone().find(is_it).or_else(|| {
            let only = running.next()?;
            running.next().is_none().then_some(only)
        });
        found.map(|call| call.id.clone())
    }

    /// Shows the model's list.
    pub(crate) fn show_plan(&self) {
        let Some(notebook) = self.notebook.get() else { return };
        self.send(SessionUpdate::Plan { entries: plan(&notebook.read().todos) });
    }

    /// Reports whether the model has a list.
    pub(crate) fn has_plan(&self) -> bool {
        self.notebook.get().is_some_and(|notebook| !notebook.read().todos.is_empty())
    }

    /// Shows what happened.
    pub(crate) fn event(&self, event: TurnEvent) {
        event.log();
        match event {
            TurnEvent::TurnStarted { .. } => self.lock().forget_turn(),
            TurnEvent::Text { text } => {
                self.lock().has_spoken = true;
                self.say(text);
            }
            TurnEvent::Reasoning { text } => {
                self.send(SessionUpdate::AgentThoughtChunk { content: ContentBlock::text(text) });
            }
            TurnEvent::Discarded { reason, .. } => {
                // Words cannot be taken back here.
                if std::mem::take(&mut self.lock().has_spoken) {
                    self.say(format!("\n\n[this answer broke off and begins anew: {reason}]\n\n"));
                } else {
                    self.note(&reason);
                }
            }
            TurnEvent::ModelCalled { .. } => self.lock().has_spoken = false,
            TurnEvent::ToolStarted { call, name, summary } => {
                self.tool_started(call, name, summary);
            }
            TurnEvent::ToolOutput { call, text } => self.tool_output(&call, &text),
            TurnEvent::FileChanged { call, path, diff } => self.file_changed(&call, &path, &diff),
            TurnEvent::ToolEnded { call, is_error, preview, .. } => {
                self.tool_ended(&call, is_error, preview);
            }
            TurnEvent::Compressing { tokens } => {
                self.note(&format!("summarising the conversation, about {tokens} tokens"));
            }
            TurnEvent::Compressed { messages, tokens } => {
                let words = format!("summarised {messages} messages; about {tokens} tokens now");
                self.note(&words);
            }
            TurnEvent::Warning { text } => self.note(&text),
            TurnEvent::ModeChanged { .. } => {
                if let Some(modes) = self.modes.get() {
                    let current_mode_id = modes.get().id();
                    self.send(SessionUpdate::CurrentModeUpdate { current_mode_id });
                }
            }
            TurnEvent::Child { index, event, .. } => self.child(index, *event),
            TurnEvent::CallAnnounced { .. }
            | TurnEvent::Steered { .. }
            // The question that follows shows it.
            | TurnEvent::PlanPresented { .. }
            | TurnEvent::TurnEnded { .. } => {}
        }
    }

    fn tool_started(&self, call: String, tool: String, summary: String) {
        let id = self.new_call();
        let kind = kind_of(&tool);
        let locations = self.locations_of(kind, &summary);
        self.send(SessionUpdate::ToolCall(ShownCall {
            id: id.clone(),
            title: title_of(&tool, &summary),
            kind,
            status: CallStatus::InProgress,
            content: Vec::new(),
            locations: locations.clone(),
        }));
        let (output, changes) = (String::new(), Vec::new());
        let running = RunningCall { id, tool, summary, output, shown_at: None, changes, locations };
        self.lock().running.insert(call, running);
    }

    fn tool_output(&self, call: &str, text: &str) {
        let update = {
            let mut state = self.lock();
            let Some(running) = state.running.get_mut(call) else { return };
            running.output.push_str(text);
            keep_end(&mut running.output);
            // The rest comes with the end of the call.
            if running.shown_at.is_some_and(|at| at.elapsed() < OUTPUT_EVERY) {
                return;
            }
            running.shown_at = Some(Instant::now());
            ToolCallUpdate {
                content: Some(vec![shown_text(&running.tool, &running.output)]),
                ..ToolCallUpdate::of(&running.id)
            }
        };
        self.send(SessionUpdate::ToolCallUpdate(update));
    }

    fn file_changed(&self, call: &str, path: &str, diff: &str) {
        let update = {
            let mut state = self.lock();
            let Some(running) = state.running.get_mut(call) else { return };
            add_changes(&mut running.changes, changes(diff, &self.shared().shown(path)));
            if let Some(path) = self.shared().in_editor(path) {
                running.locations.retain(|known| known.path != path);
                running.locations.push(Location { path, line: first_line(diff) });
            }
            ToolCallUpdate {
                content: Some(running.changes.clone()),
                locations: Some(running.locations.clone()),
                ..ToolCallUpdate::of(&running.id)
            }
        };
        self.send(SessionUpdate::ToolCallUpdate(update));
    }

    fn tool_ended(&self, call: &str, is_error: bool, preview: String) {
        let Some(running) = self.lock().running.remove(call) else { return };
        // A change says more than that there was one.
        let content = if running.changes.is_empty() || is_error {
            let text = if running.output.is_empty() { preview } else { running.output };
            let shown = (!text.trim().is_empty()).then(|| shown_text(&running.tool, &text));
            running.changes.into_iter().chain(shown).collect()
        } else {
            running.changes
        };
        let status = if is_error { CallStatus::Failed } else { CallStatus::Completed };
        let (status, content) = (Some(status), Some(content));
        let update = ToolCallUpdate { status, content, ..ToolCallUpdate::of(&running.id) };
        self.send(SessionUpdate::ToolCallUpdate(update));
        if running.tool == "todo" && !is_error {
            self.show_plan();
        }
    }

    /// Shows what a child does as output of the call that it works for.
    fn child(&self, index: usize, event: TurnEvent) {
        let TurnEvent::ToolStarted { name, summary, .. } = event else { return };
        let call = {
            let state = self.lock();
            let mut delegating =
                state.running.iter().filter(|(_, running)| running.tool == "delegate_task");
            let first = delegating.next().map(|(call, _)| call.clone());
            first.filter(|_| delegating.next().is_none())
        };
        if let Some(call) = call {
            self.tool_output(&call, &format!("{}. {}\n", index + 1, title_of(&name, &summary)));
        }
    }

    fn locations_of(&self, kind: ToolKind, summary: &str) -> Vec<Location> {
        // A summary that is cut is no path.
        if !matches!(kind, ToolKind::Read | ToolKind::Edit) || summary.ends_with('…') {
            return Vec::new();
        }
        let path = self.shared().in_editor(summary);
        path.map(|path| Location { path, line: None }).into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ViewState {
    fn new_call(&mut self) -> String {
        self.calls += 1;
        format!("call-{}", self.calls)
    }

    /// Forgets what the turn before left.
    fn forget_turn(&mut self) {
        self.running.clear();
        self.has_spoken = false;
    }
}

impl ToolCallUpdate {
    pub(crate) fn of(id: &str) -> Self {
        Self { tool_call_id: id.to_owned(), ..Self::default() }
    }
}

/// Returns what a tool does, in the protocol's words.
pub(crate) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "terminal" | "process" | "execute_code" => ToolKind::Execute,
        "read_file" | "skill_view" => ToolKind::Read,
        "write_file" | "patch" => ToolKind::Edit,
        "search_files" | "session_search" | "skills_list" => ToolKind::Search,
        "todo" | "delegate_task" | "clarify" | "memory" => ToolKind::Think,
        "present_plan" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

/// Returns what a call is about, in a line.
pub(crate) fn title_of(tool: &str, summary: &str) -> String {
    let verb = match tool {
        // The command is what one wants to see.
        "terminal" if !summary.is_empty() => return summary.to_owned(),
        "read_file" => "Read",
        "write_file" => "Write",
        "patch" => "Edit",
        "search_files" => "Search",
        "delegate_task" => "Delegate",
        "execute_code" => "Run code",
        "todo" => return "Update the plan".to_owned(),
        "present_plan" => return "Present the plan".to_owned(),
        other => other,
    };
    if summary.is_empty() { verb.to_owned() } else { format!("{verb} {summary}") }
}

/// Returns the end of a text of a tool as content.
pub(crate) fn shown_text(tool: &str, text: &str) -> ToolContent {
    let mut text = words_of(text);
    keep_end(&mut text);
    if kind_of(tool) == ToolKind::Execute {
        // What a command prints is not markdown.
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        text = format!("{fence}console\n{text}{newline}{fence}");
    }
    ToolContent::Content { content: ContentBlock::Text { text } }
}

/// Returns the words of a result that is a JSON object for the model, or else all of it.
fn words_of(text: &str) -> String {
    let Ok(Value::Object(result)) = serde_json::from_str(text) else { return text.to_owned() };
    let words = ["output", "error", "content", "text"].iter().filter_map(|name| {
        result.get(*name).and_then(Value::as_str).filter(|words| !words.trim().is_empty())
    });
    let words = words.collect::<Vec<_>>().join("\n");
    if words.is_empty() { text.to_owned() } else { words }
}

fn keep_end(text: &mut String) {
    if text.len() > OUTPUT_BYTES {
        let cut = text.ceil_char_boundary(text.len() - OUTPUT_BYTES / 2);
        let rest = text.split_off(cut);
        *text = format!("[… {cut} bytes before this are not shown]\n{rest}");
    }
}

/// Returns the changes of a unified diff, one for each piece.
fn changes(diff: &str, path: &std::path::Path) -> Vec<ToolContent> {
    let mut pieces: Vec<(String, String)> = Vec::new();
    let is_new = diff.starts_with("--- /dev/null\n");
    // The texts that the line before belongs to, for `\ No newline at end of file`.
    let mut last = (false, false);
    for line in diff.lines() {
        if line.starts_with("@@") {
            pieces.push((String::new(), String::new()));
            continue;
        }
        let Some((old, new)) = pieces.last_mut() else { continue };
        // How many more lines there are.
        if line.starts_with('…') {
            break;
        }
        let (kind, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match kind {
            "\\" => {
                for (text, is_its) in [(old, last.0), (new, last.1)] {
                    if is_its {
                        text.pop();
                    }
                }
                continue;
            }
            "-" => last = (true, false),
            "+" => last = (false, true),
            _ => last = (true, true),
        }
        for (text, is_its) in [(old, last.0), (new, last.1)] {
            if is_its {
                text.push_str(rest);
                text.push('\n');
            }
        }
    }
    let change = |(old, new): (String, String)| ToolContent::Diff {
        path: PathBuf::from(path),
        old_text: (!is_new).then_some(old),
        new_text: new,
    };
    pieces.into_iter().map(change).collect()
}

/// Adds changes to those that are shown, as long as there is room, and says what is left out.
fn add_changes(shown: &mut Vec<ToolContent>, more: Vec<ToolContent>) {
    let size = |content: &ToolContent| match content {
        ToolContent::Diff { old_text, new_text, .. } => {
            old_text.as_ref().map_or(0, String::len) + new_text.len()
        }
        ToolContent::Content { .. } => 0,
    };
    let mut bytes: usize = shown.iter().map(size).sum();
    for change in more {
        if matches!(shown.last(), Some(ToolContent::Content { .. })) {
            return;
        }
        bytes += size(&change);
        if bytes <= CHANGES_BYTES {
            shown.push(change);
        } else {
            let content = ContentBlock::text("[… more changes are not shown]");
            shown.push(ToolContent::Content { content });
        }
    }
}

/// Returns the first line that a diff changes.
fn first_line(diff: &str) -> Option<u32> {
    let header = diff.lines().find(|line| line.starts_with("@@"))?;
    let (_, new) = header.split_once('+')?;
    let digits: String = new.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|line| *line > 0)
}

fn plan(todos: &[Todo]) -> Vec<PlanEntry> {
    let entry = |todo: &Todo| {
        let status = match todo.status {
            TodoStatus::Pending => "pending",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
            TodoStatus::Cancelled => return None,
        };
        Some(PlanEntry { content: todo.content.clone(), priority: "medium", status })
    };
    todos.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn diff(old: Option<&str>, new: &str) -> ToolContent {
        let old_text = old.map(str::to_owned);
        ToolContent::Diff { path: "/site/a".into(), old_text, new_text: new.to_owned() }
    }

    #[test]
    fn a_diff_becomes_what_was_there_and_what_is_there_now() {
        let text = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+three\n four\n@@ -9 +9 @@\n-x\n\\ No newline at end of file\n+y\n";
        let expected =
            [diff(Some("one\ntwo\nfour\n"), "one\nthree\nfour\n"), diff(Some("x"), "y\n")];
        assert_eq!(changes(text, Path::new("/site/a")), expected);
        assert_eq!(first_line(text), Some(1));
        let new = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+--- x\n";
        assert_eq!(changes(new, Path::new("/site/a")), [diff(None, "--- x\n")]);
        assert_eq!(changes("", Path::new("/site/a")), []);
    }

    #[test]
    fn changes_are_shown_as_long_as_there_is_room() {
        let mut shown = Vec::new();
        add_changes(&mut shown, vec![diff(None, "a\n"), diff(None, &"x".repeat(CHANGES_BYTES))]);
        add_changes(&mut shown, vec![diff(None, "b\n")]);
        let content = ContentBlock::text("[… more changes are not shown]");
        assert_eq!(shown, [diff(None, "a\n"), ToolContent::Content { content }]);
    }

    #[test]
    fn of_a_long_output_the_end_is_shown_and_the_rest_is_counted() {
        let mut text = "ä".repeat(OUTPUT_BYTES) + "end";
        keep_end(&mut text);
        assert!(text.starts_with("[… ") && text.ends_with("end"), "{}", &text[..50]);
        assert!(text.len() <= OUTPUT_BYTES);
        let shown = shown_text("terminal", "a\n```\n");
        let words = "````console\na\n```\n````".to_owned();
        assert_eq!(shown, ToolContent::Content { content: ContentBlock::Text { text: words } });
    }
}
