//! Slash commands, and completion of the input. The table of commands is in `vestal_agent::slash`.

mod agent;
mod conversations;
mod export;
mod sandbox;

use std::path::Path;
use std::time::Duration;

use vestal_agent::Question;
use vestal_agent::settings::known_models;
use vestal_agent::slash::{
    self, ArgumentKind, COMMANDS, CommandGroup, CommandKind, CommandTiming, Invocation,
    SlashCommand, SlashError, nearest, parse,
};
use vestal_conversations::ConversationFilter;
use vestal_tui::{
    Completer as _, Line, Paths, Picker, PickerItem, Span, Suggestion, mention_at,
    mention_suggestions, style,
};

use crate::chat::Chat;
use crate::host::ChatError;
use crate::input;
use crate::questions::PendingQuestion;

pub(crate) use conversations::{go_back, store_error};

/// Executes a slash command.
pub(crate) async fn execute(chat: &mut Chat, invocation: Invocation) {
    if invocation.timing() == CommandTiming::BetweenTurns && chat.conversation().is_none() {
        return wait_for_turn(chat, &invocation);
    }
    let command = invocation.command;
    match (command.kind, command.name) {
        (CommandKind::Verb(verb), _) => run_verb(chat, verb, &invocation).await,
        (_, "new") => conversations::new_conversation(chat, &invocation).await,
        (_, "resume") => conversations::resume(chat, &invocation).await,
        (_, "branch") => conversations::branch(chat, &invocation).await,
        (_, "title") => conversations::title(chat, &invocation).await,
        (_, "undo") => conversations::undo(chat, &invocation).await,
        (_, "retry") => conversations::retry(chat).await,
        (_, "compress") => conversations::compress(chat),
        (_, "status") => conversations::status(chat).await,
        (_, "usage") => conversations::usage(chat).await,
        (_, "stop") => sandbox::stop(chat, &invocation).await,
        (_, "quit") => chat.quit(),
        (_, "model") => agent::model(chat, &invocation).await,
        (_, "reasoning") => agent::reasoning(chat, &invocation).await,
        (_, "plan") => agent::plan(chat, &invocation).await,
        (_, "tools") => agent::tools(chat, &invocation).await,
        (_, "yolo") => agent::yolo(chat, &invocation),
        (_, "approvals") => agent::approvals(chat, &invocation),
        (_, "sandbox") => sandbox::sandbox(chat, &invocation).await,
        (_, "jobs") => sandbox::jobs(chat, &invocation).await,
        (_, "copy") => export::copy(chat, &invocation).await,
        (_, "save") => export::save(chat, &invocation).await,
        (_, "help") => help(chat, &invocation),
        // A command of the table that the chat does not implement.
        (_, name) => chat.warn(&format!("/{name} is not available in the chat")),
    }
}

/// Reports input that is not a valid command. It is in the history, and not put back into the input:
/// the next message would be added to it.
pub(crate) fn report_parse_error(chat: &mut Chat, error: &SlashError) {
    let advice = vec![error.advice(), "to correct it: the arrow key up".to_owned()];
    chat.show_error(&ChatError { problem: error.to_string(), advice });
}

/// Reports that a command cannot run during a turn, and leaves it in the editor.
fn wait_for_turn(chat: &mut Chat, invocation: &Invocation) {
    let name = invocation.command.name;
    chat.note(&format!(
        "/{name} cannot run during a turn; wait, or interrupt the turn with Esc or /stop"
    ));
    let typed = format!("/{name} {}", invocation.rest);
    put_into_input(chat, typed.trim_end());
}

/// Puts text back into the input unless the user is typing something else.
fn put_into_input(chat: &mut Chat, typed: &str) {
    if chat.editor.is_empty() {
        chat.editor.set_text(typed);
    }
}

/// Reports wrong arguments of a command.
fn report_usage_error(chat: &mut Chat, invocation: &Invocation, problem: &str) {
    let command = invocation.command;
    let advice = vec![format!("usage: {}; see /help {}", command.usage(), command.name)];
    chat.show_error(&ChatError { problem: problem.to_owned(), advice });
}

/// Asks the user to choose, and runs the command that `then` makes of the answer, if any.
///
/// The chat goes on meanwhile; nothing blocks on the answer.
pub(super) fn choose(
    chat: &mut Chat,
    question: &str,
    choices: Vec<String>,
    then: impl FnOnce(&str) -> Option<Invocation> + Send + 'static,
) {
    let question = Question { question: question.to_owned(), choices };
    chat.ask(PendingQuestion::Choose { question, then: Box::new(then) });
}

/// Rows and columns that a list to choose from with the arrow keys needs; with less it is a question
/// with numbered answers.
const LIST_ROWS: u16 = 9;
const LIST_COLUMNS: u16 = 24;

/// Answers that a numbered question has at most.
const NUMBERED: usize = 10;

/// Lets the user choose from a list, the one at `marked` first, and runs the command that `then`
/// makes of the number of what was chosen, if any.
pub(super) fn pick(
    chat: &mut Chat,
    title: &str,
    mut items: Vec<PickerItem>,
    marked: usize,
    then: impl FnOnce(usize) -> Option<Invocation> + Send + 'static,
) {
    let size = chat.screen.size();
    if size.rows < LIST_ROWS || size.columns < LIST_COLUMNS {
        items.truncate(NUMBERED);
        let choices: Vec<String> = items
            .into_iter()
            .map(|item| format!("{} {}", item.label, item.about).trim_end().to_owned())
            .collect();
        let offered = choices.clone();
        return choose(chat, title, choices, move |answer| {
            then(offered.iter().position(|choice| choice == answer)?)
        });
    }
    let picker = Picker::new(items).with_marked(marked);
    chat.ask(PendingQuestion::Pick { title: title.to_owned(), picker, then: Box::new(then) });
}

/// Asks for confirmation, and runs a command after a yes.
pub(super) fn confirm(chat: &mut Chat, question: &str, command: String) {
    let choices = vec!["yes".to_owned(), "no".to_owned()];
    choose(chat, question, choices, move |answer| {
        is_yes(answer).then(|| parse_command(&command))?
    });
}

/// Parses a slash command.
pub(super) fn parse_command(command: &str) -> Option<Invocation> {
    parse(command)?.ok()
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Prints rows of names and values; long values wrap below themselves.
pub(super) fn print_table(chat: &mut Chat, rows: &[(&str, String)]) {
    print_rows(chat, "", rows);
}

/// Prints an indented table, below a heading.
pub(super) fn print_indented_table(chat: &mut Chat, rows: &[(&str, String)]) {
    print_rows(chat, "  ", rows);
}

fn print_rows(chat: &mut Chat, indent: &str, rows: &[(&str, String)]) {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = chat.width();
    let hanging = " ".repeat(indent.len() + widest + 2);
    for (name, value) in rows {
        for (number, value) in value.lines().enumerate() {
            let name = if number == 0 { *name } else { "" };
            let line = Line::from_spans(vec![
                Span::new(format!("{indent}{name:widest$}  "), style::DIM),
                Span::plain(value),
            ]);
            for line in line.wrap(width, &hanging) {
                chat.print_line(line);
            }
        }
    }
}

/// Runs a command of the command line; without arguments, its listing.
pub(super) async fn run_verb(chat: &mut Chat, verb: &[&str], invocation: &Invocation) {
    let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    if invocation.words.is_empty() {
        words.extend(
            default_arguments(invocation.command.name).iter().map(|word| (*word).to_owned()),
        );
    }
    words.extend(invocation.words.iter().cloned());
    let went_well = chat.run_host_command(words).await;
    if went_well
        && matches!(
            (invocation.command.name, invocation.strs().as_slice()),
            ("config", ["set", ..])
        )
    {
        chat.note(
            "model and tool settings apply from the next conversation (/new), a model's address and key from the next turn, all others from the next chat",
        );
    }
}

/// Returns the arguments with which a command shows its listing.
fn default_arguments(command: &str) -> &'static [&'static str] {
    match command {
        "sessions" | "kanban" | "profile" | "skills" | "mcp" => &["list"],
        "config" | "memory" => &["show"],
        _ => &[],
    }
}

/// The topic that lists the keys.
const KEYS: &str = "keys";

pub(super) fn help(chat: &mut Chat, invocation: &Invocation) {
    let Some(name) = invocation.words.first() else {
        let is_heading = |line: &str| CommandGroup::ALL.iter().any(|group| group.heading() == line);
        show_page(chat, &slash::help(), is_heading);
        // Without the keys, which would scroll the commands away.
        return chat.print_line(Line::plain("/help keys lists the keys."));
    };
    let name = name.trim_start_matches('/');
    match slash::find(name) {
        Some(command) => show_page(chat, &slash::help_of(command), |line| line == command.usage()),
        None if name == KEYS => show_keys(chat),
        None => {
            let names = COMMANDS.iter().flat_map(SlashCommand::names).chain([KEYS]);
            let advice = match nearest(name, names) {
                Some(KEYS) => "did you mean /help keys?".to_owned(),
                Some(meant) => format!("did you mean /{meant}?"),
                None => "/help lists them".to_owned(),
            };
            let problem = format!("there is no command /{name}");
            chat.show_error(&ChatError { problem, advice: vec![advice] });
        }
    }
}

/// Shows the keys of the editor and of the chat.
fn show_keys(chat: &mut Chat) {
    for (heading, keys) in
        [("Keys of the input", input::input_keys()), ("Keys of the chat", input::chat_keys())]
    {
        chat.print_line(Line::styled(heading, style::BOLD));
        let rows: Vec<(&str, String)> =
            keys.iter().map(|(keys, what)| (*keys, (*what).to_owned())).collect();
        print_indented_table(chat, &rows);
    }
}

fn show_page(chat: &mut Chat, page: &str, is_heading: impl Fn(&str) -> bool) {
    for line in page.trim_end().lines() {
        let style = if is_heading(line) { style::BOLD } else { vestal_tui::Style::default() };
        chat.print_line(Line::styled(line, style));
    }
}

/// Maximum names of each kind.
const COMPLETIONS: u32 = 50;

/// Timeout for finding names.
const NAMES_TIMEOUT: Duration = Duration::from_secs(1);

impl Chat {
    /// Offers completions at the cursor: commands, arguments, names, paths.
    pub(crate) async fn complete(&mut self) {
        let (text, cursor) = self.editor.to_complete();
        let (text, cursor) = (text.to_owned(), cursor);
        let found = match slash::complete(&text, cursor) {
            Some(completing) => self.of_command(completing).await,
            None => {
                let mut found = Paths::here().complete(&text, cursor);
                if found.is_empty() {
                    found = self.files(&text, cursor).await;
                }
                found
            }
        };
        self.editor.set_completions(found);
    }

    /// Offers files for the mention that is being written: those that begin as it does, then those
    /// with its letters somewhere in their path.
    pub(crate) async fn offer_files(&mut self) {
        let (text, cursor) = self.editor.to_complete();
        let (text, cursor) = (text.to_owned(), cursor);
        let mut found = Paths::here().complete(&text, cursor);
        for further in self.files(&text, cursor).await {
            if found.iter().all(|known| known.text != further.text) {
                found.push(further);
            }
        }
        found.truncate(COMPLETIONS as usize);
        // What is written out already needs no list.
        let is_written =
            |it: &Suggestion| text.get(it.replaces.clone()) == Some(it.text.trim_end());
        if matches!(found.as_slice(), [only] if is_written(only)) {
            found.clear();
        }
        self.editor.offer(found);
    }

    /// Returns the files below the directory whose paths have the letters of the mention.
    async fn files(&mut self, text: &str, cursor: usize) -> Vec<Suggestion> {
        let is_wanted = mention_at(text, cursor)
            .is_some_and(|it| !it.path.is_empty() && !it.path.starts_with(['/', '~', '.']));
        if !is_wanted {
            return Vec::new();
        }
        let paths = self.file_search.paths(Path::new(".")).await;
        mention_suggestions(text, cursor, paths.iter().map(String::as_str))
    }

    async fn of_command(&self, completing: slash::Completing) -> Vec<Suggestion> {
        let slash::Completing { replaces, candidates, wanted, typed, verb } = completing;
        let completion = |text: String, about: String| Suggestion {
            replaces: replaces.clone(),
            label: text.trim_end().to_owned(),
            text,
            about,
        };
        let mut found: Vec<Suggestion> = candidates
            .into_iter()
            .map(|candidate| completion(candidate.text, candidate.about))
            .collect();
        // Where the name of a command is typed: `typed` begins with its slash.
        if let Some(name) = typed.strip_prefix('/').filter(|_| replaces.start == 0) {
            let others = self.host.commands().into_iter();
            let others = others.filter(|(other, _)| other.starts_with(name));
            found.extend(others.map(|(other, about)| completion(format!("/{other} "), about)));
        }
        let names = match wanted {
            Some(wanted) => {
                let names = self.names(wanted, &typed, &verb);
                // Typing must not wait for an unresponsive sandbox.
                tokio::time::timeout(NAMES_TIMEOUT, names).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let names = names.into_iter().filter(|(name, _)| name.starts_with(&typed));
        found.extend(names.map(|(name, about)| completion(format!("{name} "), about)));
        found
    }

    /// Returns names of a kind with their descriptions.
    async fn names(
        &self,
        wanted: ArgumentKind,
        typed: &str,
        verb: &[String],
    ) -> Vec<(String, String)> {
        let bare = |names: Vec<String>| names.into_iter().map(|name| (name, String::new()));
        match wanted {
            ArgumentKind::Verb => {
                let mut words = verb.to_vec();
                words.push(typed.to_owned());
                bare(self.host.complete_command(&words)).collect()
            }
            ArgumentKind::Model => bare(known_models(&self.settings)).collect(),
            ArgumentKind::Conversation => {
                let filter =
                    ConversationFilter { limit: COMPLETIONS, ..ConversationFilter::default() };
                let found = self.agent.store().list(&filter).await.unwrap_or_default();
                let named = found.into_iter().map(|found| {
                    let title = found.conversation.title.unwrap_or_default();
                    (found.conversation.id.short().to_owned(), title)
                });
                named.collect()
            }
            ArgumentKind::Job => self.jobs.clone(),
            ArgumentKind::Task => {
                let dirs = std::fs::read_dir(self.agent.engine().sandboxes_dir());
                let dirs = dirs.into_iter().flatten().flatten();
                let names = dirs.filter_map(|dir| dir.file_name().into_string().ok());
                let mut names: Vec<String> = names.collect();
                names.sort_unstable();
                bare(names).collect()
            }
            ArgumentKind::Snapshot => {
                let task = self.info.sandbox.sandbox_task();
                let found = Box::pin(self.agent.engine().snapshots(Some(&task))).await;
                let found = found.unwrap_or_default();
                found.into_iter().map(|found| (found.name.to_string(), String::new())).collect()
            }
            ArgumentKind::Tool => {
                let tools = self.agent.tools();
                let sets = tools.toolsets();
                let sets = sets.iter().map(|set| ((*set).to_owned(), "toolset".to_owned()));
                let names = tools.names().map(|name| (name.to_owned(), "tool".to_owned()));
                sets.chain(names).collect()
            }
            ArgumentKind::Command
            | ArgumentKind::Approval
            | ArgumentKind::Number
            | ArgumentKind::Text => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use vestal_tui::{Editor, History, KeyCode, KeyPress, Reaction};

    use super::*;

    fn offer(editor: &mut Editor) {
        let (text, cursor) = editor.to_complete();
        let found = slash::complete(text, cursor).map(|completing| {
            let replaces = completing.replaces;
            let completion = |candidate: slash::SlashCandidate| Suggestion {
                replaces: replaces.clone(),
                label: candidate.text.trim_end().to_owned(),
                text: candidate.text,
                about: candidate.about,
            };
            completing.candidates.into_iter().map(completion).collect()
        });
        editor.set_completions(found.unwrap_or_default());
    }

    #[test]
    fn every_command_that_is_written_out_is_sent_though_the_list_is_open() {
        for name in COMMANDS.iter().flat_map(SlashCommand::names) {
            let mut editor = Editor::new(History::in_memory());
            editor.key(KeyPress::plain(KeyCode::Char('/')));
            offer(&mut editor);
            for c in name.chars() {
                if editor.key(KeyPress::plain(KeyCode::Char(c))) == Reaction::Complete {
                    offer(&mut editor);
                }
            }
            let sent = editor.key(KeyPress::plain(KeyCode::Enter));
            assert_eq!((sent, editor.text()), (Reaction::Submit, format!("/{name}")));
        }
    }
}
