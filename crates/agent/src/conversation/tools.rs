//! The tools of a conversation: selected, switched, and from sources.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use vestal_conversations::Error;

use super::Conversation;
use crate::event::{EventSink, TurnEvent};
use crate::mode::ConversationMode;
use crate::registry::{Registry, stands_for};
use crate::slash::nearest;
use crate::tools::PresentPlan;

/// The key of the switched tools in the store.
pub(crate) const SWITCHED: &str = "tools";

/// A tool as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// The group it belongs to.
    pub toolset: String,
    /// Whether the model has it in this conversation.
    pub is_on: bool,
    /// The beginning of what the model is told of it.
    pub about: String,
}

/// Whether a tool is given or taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The model gets it.
    On,
    /// The model has it no more.
    Off,
}

/// Why a tool was not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchToolError {
    /// There is none of that name.
    #[error("there is no tool or toolset {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// The store has a reason.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What was switched by hand, against what the settings say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolSwitches {
    #[serde(default)]
    on: BTreeSet<String>,
    #[serde(default)]
    off: BTreeSet<String>,
}

impl Conversation {
    /// Returns the tools there are, sorted by toolset and name.
    pub fn tools(&self) -> Vec<ToolInfo> {
        let all = self.all_tools();
        let mut tools: Vec<ToolInfo> = all
            .names()
            .filter_map(|name| all.get(name))
            .map(|tool| {
                let spec = tool.spec();
                ToolInfo {
                    is_on: self.tools.get(&spec.name).is_some(),
                    toolset: tool.toolset().to_owned(),
                    about: first_sentence(&spec.description),
                    name: spec.name,
                }
            })
            .collect();
        tools.sort_by(|a, b| (&a.toolset, &a.name).cmp(&(&b.toolset, &b.name)));
        tools
    }

    /// Returns the tools of this name or toolset that the settings do not give to the model.
    pub fn withheld_tools(&self, name: &str) -> Vec<String> {
        let all = self.all_tools();
        let (given, _) = all.select(&self.selection);
        let meant = self.tools().into_iter();
        let meant = meant.filter(|tool| tool.name == name || stands_for(name, &tool.toolset));
        meant.map(|tool| tool.name).filter(|tool| given.get(tool).is_none()).collect()
    }

    /// Gives the model a tool or a toolset, or takes it, in this conversation
    /// only and also when it is resumed. Returns the tools that this changed.
    #[boxed]
    pub async fn switch_tool(
        &mut self,
        name: &str,
        switch: Switch,
    ) -> Result<Vec<String>, SwitchToolError> {
        let tools = self.tools();
        let meant: Vec<&ToolInfo> = tools
            .iter()
            .filter(|tool| tool.name == name || stands_for(name, &tool.toolset))
            .collect();
        if meant.is_empty() {
            let known = tools.iter().flat_map(|tool| [tool.name.as_str(), tool.toolset.as_str()]);
            let nearest = nearest(name, known).map(str::to_owned);
            return Err(SwitchToolError::Unknown { name: name.to_owned(), nearest });
        }
        let mut switched = self.switched.clone();
        for tool in &meant {
            let (to, from) = match switch {
                Switch::On => (&mut switched.on, &mut switched.off),
                Switch::Off => (&mut switched.off, &mut switched.on),
            };
            to.insert(tool.name.clone());
            from.remove(&tool.name);
        }
        let value = serde_json::json!(switched);
        self.agent.parts.store.set_state(&self.id, SWITCHED, Some(&value)).await?;
        self.switched = switched;
        self.choose_tools();
        let changes = |tool: &&ToolInfo| tool.is_on != (switch == Switch::On);
        Ok(meant.into_iter().filter(changes).map(|tool| tool.name.clone()).collect())
    }

    /// Chooses the tools anew, of all that there are now.
    pub(crate) fn choose_tools(&mut self) {
        let all = self.all_tools();
        let (mut chosen, _) = all.select(&self.selection);
        if !self.human.is_present() {
            chosen.remove_interactive();
        }
        for name in &self.switched.on {
            if let Some(tool) = all.get(name) {
                chosen.add(Arc::clone(tool));
            }
        }
        for name in &self.switched.off {
            chosen.remove(name);
        }
        if self.mode.get() == ConversationMode::Plan && self.inherited.is_none() {
            chosen.add(Arc::new(PresentPlan));
        }
        self.specs = chosen.specs();
        self.tools = Arc::new(chosen);
        // Another set of tools is another request: what was counted counts no more.
        self.counted = None;
    }

    /// Returns the tools that are always there, and those of the sources.
    fn all_tools(&self) -> Registry {
        if let Some(inherited) = &self.inherited {
            return Registry::clone(inherited);
        }
        let mut all = self.agent.parts.tools.clone();
        for tool in self.agent.parts.sources.iter().flat_map(|source| source.tools()) {
            all.add(tool);
        }
        all
    }
}

fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}

/// Which of the sources' tools a conversation has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceVersions {
    /// What the sources' versions were; none before the first turn.
    versions: Option<Vec<u64>>,
}

impl Conversation {
    /// Takes the tools that the sources have now. Before the first turn, those
    /// that are still being asked are waited for, as long as each of them
    /// thinks right. A child keeps what it was given.
    pub(crate) async fn refresh_tools(&mut self, events: &EventSink, cancel: &CancellationToken) {
        if self.inherited.is_some() {
            return;
        }
        let sources = &self.agent.parts.sources;
        if self.source_versions.versions.is_none() {
            let settled = join_all(sources.iter().map(|source| source.settle()));
            tokio::select! {
                _ = settled => {}
                () = cancel.cancelled() => {}
            }
        }
        // Before the tools: what changes in between is taken the next time.
        let versions: Vec<u64> = sources.iter().map(|source| source.version()).collect();
        for text in sources.iter().flat_map(|source| source.take_notices()) {
            let text = self.agent.parts.redactor.redact(&text).into_owned();
            events.emit(TurnEvent::Warning { text });
        }
        if self.source_versions.versions.as_ref() != Some(&versions) {
            // Without sources, the tools are those it was opened with.
            if !versions.is_empty() {
                self.choose_tools();
            }
            self.source_versions.versions = Some(versions);
        }
    }
}
