//! What the agent has beyond its own tools: skills, notes and MCP servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_agent::redact::Redactor;
use vestal_mcp::{McpConnection, McpServer, McpServerName, Probe, ServerError};
use vestal_memory::{Entries, NotesTarget};
use vestal_skills::{Broken, FileInfo, Installed, Need, Proposal, Skill};

/// A skill that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The folder it is grouped in.
    pub category: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its license.
    pub license: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether the agent may use it.
    pub enabled: bool,
    /// Its folder.
    pub path: String,
    /// Variables that it asks for.
    pub variables: Vec<SkillVariableView>,
    /// Names of required variables that have no value.
    pub missing: Vec<String>,
}

impl SkillView {
    /// Returns the view of a skill and of the variables it asks for.
    pub fn new(skill: &Skill, needs: &[Need]) -> Self {
        let about = &skill.about;
        let unmet = needs.iter().filter(|need| need.is_unmet());
        Self {
            name: about.name.to_string(),
            description: about.description.clone(),
            category: skill.category.clone(),
            version: about.version.clone(),
            license: about.license.clone(),
            tags: about.tags.clone(),
            enabled: skill.enabled,
            path: skill.dir.display().to_string(),
            variables: needs.iter().map(SkillVariableView::from).collect(),
            missing: unmet.map(|need| need.variable.name.to_string()).collect(),
        }
    }
}

/// A variable that a skill asks for. Its value is never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillVariableView {
    /// Its name.
    pub name: String,
    /// `set`, `missing`, `withheld` or `not forwarded`.
    pub state: String,
    /// Whether the skill works without it.
    pub optional: bool,
    /// What the skill says about it.
    pub help: Option<String>,
    /// The feature that needs it.
    pub required_for: Option<String>,
}

impl From<&Need> for SkillVariableView {
    fn from(need: &Need) -> Self {
        Self {
            name: need.variable.name.to_string(),
            state: need.state.as_str().to_owned(),
            optional: need.variable.optional,
            help: need.variable.help.clone(),
            required_for: need.variable.required_for.clone(),
        }
    }
}

/// A skill that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenSkillView {
    /// Its name, as far as it is known.
    pub name: String,
    /// The file or folder with the fault.
    pub path: String,
    /// The line of the fault.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
    /// What to do about it; empty where nothing is known.
    pub advice: String,
}

impl From<&Broken> for BrokenSkillView {
    fn from(broken: &Broken) -> Self {
        Self {
            name: broken.name.clone(),
            path: broken.path.display().to_string(),
            line: broken.line,
            reason: broken.reason.clone(),
            advice: broken.advice.clone(),
        }
    }
}

/// The skills of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillsView {
    /// Skills that can be used.
    pub skills: Vec<SkillView>,
    /// Skills that cannot.
    pub broken: Vec<BrokenSkillView>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFileView {
    /// Its path in the skill's folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it is a script.
    pub script: bool,
}

impl From<&FileInfo> for SkillFileView {
    fn from(file: &FileInfo) -> Self {
        Self { path: file.path.display().to_string(), bytes: file.bytes, script: file.is_script }
    }
}

/// A skill with its files and instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillDetailsView {
    /// The skill.
    #[serde(flatten)]
    pub skill: SkillView,
    /// Its files.
    pub files: Vec<SkillFileView>,
    /// The whole of SKILL.md.
    pub content: String,
}

/// A required variable that has no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingVariableView {
    /// The skill that needs it.
    pub skill: String,
    /// The variable.
    pub variable: String,
    /// What is missing, in a sentence.
    pub words: String,
}

/// The result of checking skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillCheckView {
    /// Whether nothing is broken and nothing is missing.
    pub ok: bool,
    /// Names of skills in order.
    pub fine: Vec<String>,
    /// Skills that cannot be used.
    pub broken: Vec<BrokenSkillView>,
    /// Required variables without a value.
    pub missing: Vec<MissingVariableView>,
}

impl SkillCheckView {
    /// Decides whether everything is in order.
    #[must_use]
    pub fn concluded(mut self) -> Self {
        self.ok = self.broken.is_empty() && self.missing.is_empty();
        self
    }
}

/// A skill that was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledSkillView {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: String,
    /// Number of files.
    pub files: usize,
    /// Size of all files.
    pub bytes: u64,
    /// Paths of its scripts.
    pub scripts: Vec<String>,
    /// Variables that it asks for.
    pub variables: Vec<SkillVariableView>,
    /// Paths that were not installed.
    pub left_out: Vec<String>,
    /// Whether it took the place of another skill.
    pub replaced: bool,
}

impl InstalledSkillView {
    /// Returns the view of a proposal that was carried out.
    pub fn new(proposal: &Proposal, installed: &Installed) -> Self {
        let scripts = proposal.survey.scripts().map(|file| file.path.display().to_string());
        Self {
            name: installed.name.to_string(),
            path: installed.dir.display().to_string(),
            files: installed.files,
            bytes: proposal.survey.bytes,
            scripts: scripts.collect(),
            variables: proposal.needs.iter().map(SkillVariableView::from).collect(),
            left_out: proposal.left_out.clone(),
            replaced: installed.replaced,
        }
    }
}

/// A skill that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedSkillView {
    /// Its name.
    pub name: String,
    /// The folder it was in.
    pub path: String,
}

/// The notes of one file of the agent's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesView {
    /// `memory` or `user`.
    pub target: String,
    /// The file.
    pub path: String,
    /// Whether the agent gets these notes.
    pub enabled: bool,
    /// The notes.
    pub entries: Vec<String>,
    /// Their size in characters.
    pub characters: usize,
    /// Characters that the file may have.
    pub limit: usize,
    /// Why they cannot be read.
    pub error: Option<String>,
}

impl NotesView {
    /// Returns the view of notes that are in a file and, unless they are switched off, told to the agent.
    pub fn new(
        files: &vestal_memory::NoteFiles,
        enabled: bool,
        target: NotesTarget,
        entries: &Entries,
    ) -> Self {
        Self {
            target: target.to_string(),
            path: files.path(target).display().to_string(),
            enabled,
            entries: entries.iter().map(str::to_owned).collect(),
            characters: entries.characters(),
            limit: files.limit(target),
            error: None,
        }
    }
}

/// An MCP server of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServerView {
    /// Its name.
    pub name: String,
    /// Whether the agent uses it.
    pub enabled: bool,
    /// `stdio`, `http` or `sse`.
    pub transport: String,
    /// The command with its arguments, or the address; secrets are masked.
    pub target: String,
    /// Where the settings have it from.
    pub source: String,
}

impl McpServerView {
    /// Returns the view of a server of the settings. What is a secret in it is masked by a redactor.
    pub fn new(
        name: &McpServerName,
        server: &McpServer,
        source: &str,
        redactor: &Redactor,
    ) -> Self {
        let (transport, target) = match &server.connection {
            McpConnection::Program { command, args, .. } => {
                let words = std::iter::once(command).chain(args).map(String::as_str);
                ("stdio", words.collect::<Vec<_>>().join(" "))
            }
            McpConnection::Address { url, transport, .. } => {
                (transport.as_str(), vestal_mcp::public_url(url))
            }
        };
        Self {
            name: name.to_string(),
            enabled: server.enabled,
            transport: transport.to_owned(),
            target: redactor.redact(&target).into_owned(),
            source: source.to_owned(),
        }
    }
}

/// The result of connecting to an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTestView {
    /// The server.
    pub name: String,
    /// Whether it answers.
    pub ok: bool,
    /// What the server calls itself.
    pub server: Option<String>,
    /// The version of the protocol that it speaks.
    pub protocol: Option<String>,
    /// The agent's names of its tools.
    pub tools: Vec<String>,
    /// Time until it answered.
    pub took_ms: Option<u64>,
    /// Why it cannot be used.
    pub error: Option<String>,
}

impl McpTestView {
    /// Returns the view of an attempt to use a server.
    pub fn new(name: &str, tried: Result<Probe, ServerError>) -> Self {
        let (probe, error) = match tried {
            Ok(probe) => (Some(probe), None),
            Err(trouble) => (None, Some(trouble.to_string())),
        };
        let took = probe.as_ref().map(|probe| probe.took.as_millis());
        let tools = probe.iter().flat_map(|probe| &probe.tools);
        Self {
            name: name.to_owned(),
            ok: error.is_none(),
            took_ms: took.map(|took| u64::try_from(took).unwrap_or(u64::MAX)),
            server: probe.as_ref().and_then(|probe| probe.about.clone()),
            tools: tools.map(|tool| tool.name.clone()).collect(),
            protocol: probe.map(|probe| probe.protocol),
            error,
        }
    }
}
