//! A server's tool as one of the agent's.

use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;

use crate::call::call;
use crate::schema;
use crate::server::ConnectedServer;

/// Characters of a tool's description.
const DESCRIPTION: usize = 4000;

/// Characters of a name where it stands for a description.
const NAME: usize = 100;

/// What a server says about a tool of its, repaired and bounded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    /// Its name, as the server has it.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// Whether it says that it changes nothing.
    pub(crate) reads_only: bool,
    /// Whether it says that it may destroy something.
    pub(crate) is_destructive: bool,
}

impl Offered {
    pub(crate) fn new(tool: &rmcp::model::Tool) -> Self {
        let schema::Repaired { schema, note } = schema::repaired(&tool.input_schema);
        let given = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let mut description = shortened(printable(given).trim(), DESCRIPTION);
        if description.is_empty() {
            let name = one_line(&tool.name, NAME);
            description = format!("The tool {name} of an MCP server.");
        }
        if let Some(note) = note {
            description.push(' ');
            description.push_str(note);
        }
        let hint = |read: fn(&rmcp::model::ToolAnnotations) -> Option<bool>| {
            tool.annotations.as_ref().and_then(read).unwrap_or(false)
        };
        let reads_only = hint(|own| own.read_only_hint);
        Self {
            name: tool.name.clone().into_owned(),
            description,
            schema,
            reads_only,
            // What is said to change nothing cannot destroy anything either.
            is_destructive: !reads_only && hint(|own| own.destructive_hint),
        }
    }
}

/// A tool of a server, for people and programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolStatus {
    /// What the agent calls it.
    pub name: String,
    /// What the server calls it.
    pub own_name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments, as providers get it.
    pub schema: Value,
    /// Whether it says that it changes nothing.
    pub read_only: bool,
    /// Whether it says that it may destroy something; a person is asked first.
    pub destructive: bool,
}

impl ToolStatus {
    pub(crate) fn new(name: String, own: &Offered) -> Self {
        Self {
            name,
            own_name: own.name.clone(),
            description: own.description.clone(),
            schema: own.schema.clone(),
            read_only: own.reads_only,
            destructive: own.is_destructive,
        }
    }
}

/// A server's tool as one of the agent's.
pub(crate) struct RemoteTool {
    /// What the agent calls it.
    pub(crate) name: String,
    pub(crate) toolset: String,
    pub(crate) own: Offered,
    pub(crate) server: Arc<ConnectedServer>,
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.own.description.clone(),
            parameters: self.own.schema.clone(),
        }
    }

    fn toolset(&self) -> &str {
        &self.toolset
    }

    fn footprint(&self, _: &Value) -> Footprint {
        // A tool that may ask a person runs alone; a hint that nothing is
        // changed, if it is wrong, costs no more than an order of calls.
        if !self.own.is_destructive && (self.own.reads_only || self.server.plan.parallel) {
            Footprint::Reads
        } else {
            Footprint::Exclusive
        }
    }

    fn only_reads(&self, _: &Value) -> bool {
        self.own.reads_only
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            return ToolOutput::error("the arguments must be a JSON object");
        };
        let mut approved = None;
        if self.own.is_destructive {
            let about = format!("{} {}", self.name, Value::Object(arguments.clone()));
            match context.guard.outside(context, &self.name, &about).await {
                Ok(clearance) => approved = clearance.approved_by_person,
                Err(refusal) => return ToolOutput::error(refusal.message),
            }
        }
        let mut output = call(&self.server, &self.own.name, arguments, context).await;
        if let Some(approved) = approved {
            output.content.extend(["\n[", &approved, "]"]);
        }
        output
    }
}

/// Longest name that every provider takes.
const LONGEST: usize = 64;

/// Characters of what tells two names apart that would be the same.
const MARK: usize = 5;

/// Gives names that are all different.
#[derive(Debug, Default)]
pub(crate) struct UniqueNames {
    /// All servers of the settings, whether they answer or not.
    servers: Vec<String>,
    given: HashSet<String>,
}

impl UniqueNames {
    /// Gives names to tools of these servers.
    pub(crate) fn among<'a>(servers: impl IntoIterator<Item = &'a str>) -> Self {
        let servers = servers.into_iter().map(str::to_owned).collect();
        Self { servers, given: HashSet::new() }
    }

    /// Returns the name of a server's tool. The same tools in the same order
    /// get the same names, and no server gets a name that another's tool may
    /// have: approvals are given to names, and which server answers first, or
    /// what it calls its tools, must not hand them on.
    pub(crate) fn give(&mut self, server: &str, tool: &str) -> String {
        let whole = format!("mcp_{}_{}", word(server), word(tool));
        if whole.len() <= LONGEST
            && !self.is_anothers(server, &whole)
            && self.given.insert(whole.clone())
        {
            return whole;
        }
        let mut round = 0;
        loop {
            let name = marked(&whole, server, tool, round);
            if self.given.insert(name.clone()) {
                return name;
            }
            round += 1;
        }
    }

    /// Reports whether a name is one for another server: the one whose own name
    /// is the longest that it begins with, and of several the first.
    fn is_anothers(&self, server: &str, whole: &str) -> bool {
        let length = word(server).len();
        let before = self.servers.iter().position(|other| other == server);
        self.servers.iter().enumerate().any(|(at, other)| {
            let own = word(other);
            let is_first = before.is_some_and(|before| at < before);
            other != server
                && whole.starts_with(&format!("mcp_{own}_"))
                && (own.len() > length || (own.len() == length && is_first))
        })
    }
}

/// Reports whether a tool's name has to be changed.
pub(crate) fn is_odd(tool: &str) -> bool {
    word(tool) != tool
}

/// Replaces what providers refuse in a name.
fn word(text: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let word: String = text.chars().map(fold).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

/// Returns a name that ends in something of its own. It is all ASCII by now.
fn marked(whole: &str, server: &str, tool: &str, round: u32) -> String {
    let mut hasher = Fnv::default();
    (server, tool, round).hash(&mut hasher);
    let mark = format!("{:05x}", hasher.finish() & 0xf_ffff);
    let kept: String = whole.chars().take(LONGEST - MARK - 1).collect();
    format!("{kept}_{mark}")
}

/// FNV-1a: the same on every machine and in every version, unlike the standard
/// library's; a name is in stored conversations.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Returns text without what a terminal obeys or nobody sees: control
/// characters, marks that turn the direction of writing, and the invisible
/// characters that hide words from people but not from models.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: &char| match c {
        '\n' | '\t' => true,
        c if c.is_control() => false,
        // Soft and zero-width ones, and fillers that look like nothing.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{3164}' | '\u{ffa0}'
        | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        // Marks and separators that change how lines are shown.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        // Variants and tags: a text of its own fits into them.
        | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    };
    text.chars().filter(shown).collect()
}

/// Returns the beginning of a text, so many characters at most.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
    }
}

/// Returns one short line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&words, most)
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
