//! The tools there are, by name and by toolset, and sources whose tools come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use vestal_model::ToolSpec;

use crate::tool::Tool;

/// The word that stands for every toolset.
pub const ALL: &str = "all";

/// Tools by name. The loop itself knows none of them by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

/// Which tools a conversation gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Toolsets it gets; [`ALL`] stands for every one.
    pub toolsets: Vec<String>,
    /// Toolsets it does not get.
    pub without_toolsets: Vec<String>,
    /// Tools it does not get.
    pub without_tools: Vec<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            toolsets: vec![ALL.to_owned()],
            without_toolsets: Vec::new(),
            without_tools: Vec::new(),
        }
    }
}

impl Registry {
    /// Adds a tool; one of the same name is replaced.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.spec().name, tool);
    }

    /// Removes a tool.
    pub fn remove(&mut self, name: &str) {
        self.tools.remove(name);
    }

    /// Removes the tools that are of no use where nobody can be asked.
    pub(crate) fn remove_interactive(&mut self) {
        self.tools.retain(|_, tool| !tool.needs_person());
    }

    /// Returns a tool.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Returns the names of all tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the names of all toolsets, sorted.
    pub fn toolsets(&self) -> BTreeSet<&str> {
        self.tools.values().map(|tool| tool.toolset()).collect()
    }

    /// Returns what the model is told, sorted by name so that a provider's
    /// prompt cache stays warm.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }

    /// Returns the tools of a selection, and the names in it that stand for nothing.
    pub fn select(&self, selection: &Selection) -> (Self, Vec<String>) {
        let Selection { toolsets, without_toolsets, without_tools } = selection;
        let known = self.toolsets();
        let stands_for_a_set = |name: &&String| known.iter().any(|set| stands_for(name, set));
        let unknown_sets = toolsets.iter().chain(without_toolsets).filter(|n| !stands_for_a_set(n));
        let unknown_tools = without_tools.iter().filter(|name| self.get(name).is_none());
        let unknown = unknown_sets.chain(unknown_tools).cloned().collect();
        let chosen = |tool: &Arc<dyn Tool>| {
            let set = tool.toolset();
            let named = |list: &[String]| list.iter().any(|name| stands_for(name, set));
            named(toolsets) && !named(without_toolsets)
        };
        let tools = self
            .tools
            .iter()
            .filter(|(name, tool)| chosen(tool) && !without_tools.contains(name))
            .map(|(name, tool)| (name.clone(), Arc::clone(tool)))
            .collect();
        (Self { tools }, unknown)
    }
}

/// Reports whether a name stands for a toolset: its own, the word for all, or
/// the first part of one such as `mcp-files`.
pub(crate) fn stands_for(name: &str, toolset: &str) -> bool {
    let begins = |rest: &str| rest.is_empty() || rest.starts_with('-');
    name == ALL || toolset.strip_prefix(name).is_some_and(begins)
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// A source of tools that may come and go: a server
/// that is still being asked, or one that went away and came back.
///
/// A conversation looks at its sources when a turn begins, never during one: a
/// model that was offered a tool keeps it until its turn has ended.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Waits until the tools are known, but no longer than a turn should be kept
    /// from beginning.
    async fn settle(&self);

    /// Returns a number that changes whenever the tools have.
    fn version(&self) -> u64;

    /// Returns the tools there are now.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Reports whether a tool or a toolset of this name may be its, now or later:
    /// no missing one is reported then.
    fn may_offer(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Takes the notices about the source; each comes once.
    fn take_notices(&self) -> Vec<String>;
}
