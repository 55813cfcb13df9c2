//! Completion of the input.

use std::time::Duration;

use vestal_agent::slash::{self, Value};
use vestal_conversations::Filter;
use vestal_tui::{Completer as _, Completion, Paths};

use crate::chat::Chat;

/// Maximum names of each kind.
const MOST: u32 = 50;

/// Timeout for finding names.
const PATIENCE: Duration = Duration::from_secs(1);

impl Chat {
    /// Offers completions at the cursor: commands, arguments, names, paths.
    pub(crate) async fn complete(&mut self) {
        let (text, cursor) = self.editor.to_complete();
        let (text, cursor) = (text.to_owned(), cursor);
        let found = match slash::complete(&text, cursor) {
            Some(completing) => self.of_command(completing).await,
            None => Paths::here().complete(&text, cursor),
        };
        self.editor.set_completions(found);
    }

    async fn of_command(&self, completing: slash::Completing) -> Vec<Completion> {
        let slash::Completing { replaces, candidates, wanted, typed, verb } = completing;
        let completion = |text: String, about: String| Completion {
            replaces: replaces.clone(),
            label: text.trim_end().to_owned(),
            text,
            about,
        };
        let mut found: Vec<Completion> = candidates
            .into_iter()
            .map(|candidate| completion(candidate.text, candidate.about))
            .collect();
        let names = match wanted {
            Some(wanted) => {
                let names = self.names(wanted, &typed, &verb);
                // Typing must not wait for an unresponsive sandbox.
                tokio::time::timeout(PATIENCE, names).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let names = names.into_iter().filter(|(name, _)| name.starts_with(&typed));
        found.extend(names.map(|(name, about)| completion(format!("{name} "), about)));
        found
    }

    /// Returns names of a kind with their descriptions.
    async fn names(&self, wanted: Value, typed: &str, verb: &[String]) -> Vec<(String, String)> {
        let bare = |names: Vec<String>| names.into_iter().map(|name| (name, String::new()));
        match wanted {
            Value::Verb => {
                let mut words = verb.to_vec();
                words.push(typed.to_owned());
                bare(self.host.complete_command(&words)).collect()
            }
            Value::Model => bare(crate::commands::known_models(&self.settings)).collect(),
            Value::Conversation => {
                let filter = Filter { limit: MOST, ..Filter::default() };
                let found = self.agent.store().list(&filter).await.unwrap_or_default();
                let named = found.into_iter().map(|found| {
                    let title = found.conversation.title.unwrap_or_default();
                    (found.conversation.id.short().to_owned(), title)
                });
                named.collect()
            }
            Value::Job => self.jobs.clone(),
            Value::Task => {
                let dirs = std::fs::read_dir(self.agent.engine().sandboxes_dir());
                let dirs = dirs.into_iter().flatten().flatten();
                let names = dirs.filter_map(|dir| dir.file_name().into_string().ok());
                let mut names: Vec<String> = names.collect();
                names.sort_unstable();
                bare(names).collect()
            }
            Value::Snapshot => {
                let task = self.info.sandbox.sandbox_task();
                let found = Box::pin(self.agent.engine().snapshots(Some(&task))).await;
                let found = found.unwrap_or_default();
                found.into_iter().map(|found| (found.name.to_string(), String::new())).collect()
            }
            Value::Tool => {
                let tools = self.agent.tools();
                let sets = tools.toolsets();
                let sets = sets.iter().map(|set| ((*set).to_owned(), "toolset".to_owned()));
                let names = tools.names().map(|name| (name.to_owned(), "tool".to_owned()));
                sets.chain(names).collect()
            }
            Value::Command | Value::Approval | Value::Number | Value::Text => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use vestal_agent::slash::{COMMANDS, Command};
    use vestal_tui::{Editor, History, Key, KeyCode, Reaction};

    use super::*;

    fn offer(editor: &mut Editor) {
        let (text, cursor) = editor.to_complete();
        let found = slash::complete(text, cursor).map(|completing| {
            let replaces = completing.replaces;
            let completion = |candidate: slash::Candidate| Completion {
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
        for name in COMMANDS.iter().flat_map(Command::names) {
            let mut editor = Editor::new(History::in_memory());
            editor.key(Key::plain(KeyCode::Char('/')));
            offer(&mut editor);
            for c in name.chars() {
                if editor.key(Key::plain(KeyCode::Char(c))) == Reaction::Complete {
                    offer(&mut editor);
                }
            }
            let sent = editor.key(Key::plain(KeyCode::Enter));
            assert_eq!((sent, editor.text()), (Reaction::Submit, format!("/{name}")));
        }
    }
}
