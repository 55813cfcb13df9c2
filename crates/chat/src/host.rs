//! What the chat needs from the program that hosts it.

use async_trait::async_trait;
use vestal_agent::Conversation;
use vestal_conversations::ConversationId;
use vestal_sandbox::Task;

/// The program around the chat: it knows the command line and the settings, and
/// how conversations are opened from them.
#[async_trait]
pub trait Program: Send + Sync {
    /// Opens a conversation as the settings and the command line say.
    async fn open(&self, what: Open) -> Result<Opened, Trouble>;

    /// Runs a command of the command line, `["model", "list"]`, in this process
    /// and on this terminal, which is in its usual mode meanwhile: what it
    /// prints, asks and reports is seen as ever, and Ctrl-C ends it. Returns
    /// whether it went well; why not has been said by then.
    async fn verb(&self, words: Vec<String>) -> bool;

    /// Returns what the words of a command could go on with, for completion.
    fn complete_verb(&self, words: &[String]) -> Vec<String>;

    /// Returns what is said to the model where somebody types `/name words` and
    /// no command has that name: a skill may.
    fn words_for(&self, name: &str, words: &str) -> Option<Result<String, Trouble>> {
        let _ = (name, words);
        None
    }
}

/// Something that other parts of the program say while the chat draws on the
/// terminal: a library's report, how far the start of a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outside {
    /// A line, for good.
    Line(String),
    /// What is under way, in place of what was; none: nothing any more.
    Status(Option<String>),
}

/// Which conversation is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    /// What the command line asks for: a new one, the last one, a named one.
    First,
    /// A new one. What is not named is as in the conversation before.
    New {
        /// The task whose sandbox it works in.
        task: Option<Task>,
        /// The model: `MODEL` or `PROVIDER:MODEL`; none: the configured one.
        model: Option<String>,
        /// Its title.
        title: Option<String>,
    },
    /// One that was begun before, in its own sandbox and with its own model,
    /// unless another one of either is named.
    Resume {
        /// Which.
        id: ConversationId,
        /// The task whose sandbox it works in from now on.
        task: Option<Task>,
        /// The model it is gone on with.
        model: Option<String>,
    },
}

/// A conversation that has been opened.
#[derive(Debug)]
pub struct Opened {
    /// The conversation.
    pub conversation: Conversation,
    /// Whether it was begun before.
    pub is_resumed: bool,
    /// What a person should know.
    pub notices: Vec<String>,
}

/// Why something could not be done, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Trouble {
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub advice: Vec<String>,
}
