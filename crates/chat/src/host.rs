//! What the chat needs from the program that hosts it.

use async_trait::async_trait;
use vestal_agent::Conversation;
use vestal_conversations::ConversationId;
use vestal_sandbox::TaskName;

/// The program that hosts a chat: it opens conversations from settings and command line, and
/// runs commands.
#[async_trait]
pub trait ChatHost: Send + Sync {
    /// Opens a conversation as settings and command line say.
    async fn open(&self, what: OpenTarget) -> Result<OpenedConversation, ChatError>;

    /// Runs a command of the command line, such as `["model", "list"]`, in this process
    /// while the terminal is suspended to its normal mode. Returns whether it succeeded;
    /// errors have been printed by then.
    async fn run_command(&self, words: Vec<String>) -> bool;

    /// Returns completions for the last word of a command.
    fn complete_command(&self, words: &[String]) -> Vec<String>;

    /// Returns the names of the commands that [`ChatHost::expand_command`] knows, each with what it
    /// does.
    fn commands(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the message that `/name words` stands for if no command has that name, for
    /// example a skill.
    fn expand_command(&self, name: &str, words: &str) -> Option<Result<String, ChatError>> {
        let _ = (name, words);
        None
    }
}

/// A message of the host while the chat owns the terminal, such as a log line or the
/// progress of a sandbox start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostMessage {
    /// A line to print.
    Line(String),
    /// The current activity; `None` when it has ended.
    Status(Option<String>),
}

/// Which conversation to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenTarget {
    /// The one that the command line asks for.
    First,
    /// A new one. Fields that are `None` are as in the previous conversation.
    New {
        /// The task whose sandbox it uses.
        task: Option<TaskName>,
        /// The model, as `MODEL` or `PROVIDER:MODEL`; `None` for the configured one.
        model: Option<String>,
        /// Its title.
        title: Option<String>,
    },
    /// An existing one, with its own sandbox and model unless others are given.
    Resume {
        /// Its id.
        id: ConversationId,
        /// The task whose sandbox it uses from now on.
        task: Option<TaskName>,
        /// The model it continues with.
        model: Option<String>,
    },
}

/// An opened conversation.
#[derive(Debug)]
pub struct OpenedConversation {
    /// The conversation.
    pub conversation: Conversation,
    /// Whether it existed before.
    pub is_resumed: bool,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// An error that is shown to the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ChatError {
    /// What happened.
    pub problem: String,
    /// What to do about it.
    pub advice: Vec<String>,
}
