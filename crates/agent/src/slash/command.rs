//! What a command is.

/// A command of the program, as it is typed in a conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the `/`.
    pub name: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// What may follow it, as help shows it: `[N]`, `ID | kill ID`.
    pub arguments: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it is about.
    pub group: CommandGroup,
    /// Who carries it out.
    pub kind: CommandKind,
    /// Whether it has to wait until no turn runs.
    pub timing: CommandTiming,
    /// How what follows it is read.
    pub takes: ArgumentStyle,
    /// Words that may follow it.
    pub words: &'static [CommandWord],
    /// More to know, a paragraph to a line; for the help of this one command.
    pub details: &'static str,
}

/// What commands are about; help shows them by it, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandGroup {
    /// The conversation: begun, left, taken back.
    Conversation,
    /// The agent: who answers, and what it may do.
    Agent,
    /// The sandbox it works in.
    Sandbox,
    /// What is kept beside conversations.
    Around,
}

impl CommandGroup {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 4] = [Self::Conversation, Self::Agent, Self::Sandbox, Self::Around];

    /// Returns what stands above its commands.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Conversation => "The conversation",
            Self::Agent => "The agent",
            Self::Sandbox => "Its sandbox",
            Self::Around => "Everything else",
        }
    }
}

/// Who carries a command out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// It is about this conversation, and done in it wherever that is held.
    Conversation,
    /// It is this verb of the command line, and its words are the verb's.
    Verb(&'static [&'static str]),
    /// It is of use only at a terminal.
    Terminal,
}

/// Whether a command has to wait until no turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandTiming {
    /// It acts at once, also while the model works.
    AtOnce,
    /// It changes what the model works with, and so acts between turns only.
    BetweenTurns,
}

/// How what follows a command is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgumentStyle {
    /// Nothing may follow.
    Nothing,
    /// Words, divided as in a shell.
    Words,
    /// Words of a person, as they are: quotes mean nothing.
    Text,
}

/// A word that may follow a command.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandWord {
    /// The word; empty where a value stands by itself.
    pub word: &'static str,
    /// What follows it.
    pub value: Option<ArgumentKind>,
    /// What it does, in a line.
    pub about: &'static str,
}

/// What kind of name stands somewhere, so that a caller that knows the names can
/// offer them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgumentKind {
    /// A model, `PROVIDER:MODEL`.
    Model,
    /// A conversation.
    Conversation,
    /// A job of the sandbox.
    Job,
    /// A task.
    Task,
    /// A snapshot of the sandbox.
    Snapshot,
    /// A tool or a toolset.
    Tool,
    /// A command of this table.
    Command,
    /// The number of an approval.
    Approval,
    /// A number.
    Number,
    /// Anything.
    Text,
    /// Words of a verb of the command line, which has its own completion.
    Verb,
}

impl ArgumentKind {
    /// Returns what stands for it in help.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Model | Self::Conversation | Self::Snapshot | Self::Tool => "NAME",
            Self::Job => "ID",
            Self::Task => "TASK",
            Self::Command => "COMMAND",
            Self::Approval | Self::Number => "N",
            Self::Text => "TEXT",
            Self::Verb => "…",
        }
    }
}

impl SlashCommand {
    /// Returns the name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns it as it is typed: `/undo [N]`.
    pub fn usage(&self) -> String {
        match self.arguments {
            "" => format!("/{}", self.name),
            arguments => format!("/{} {arguments}", self.name),
        }
    }
}
