//! Who has the conversation: the chat, or a turn that runs.

use std::future::pending;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use vestal_agent::{Control, Conversation, TurnResult};
use vestal_model::UserMessage;
use vestal_tui::Submission;

use crate::program::Trouble;

/// The conversation, wherever it is.
pub(crate) enum Talk {
    /// Nothing runs in it.
    Idle(Box<Conversation>),
    /// Something runs in it, and hands it back when it ends.
    Running(Running),
    /// It has been closed, or was lost with a turn that broke.
    Gone,
}

/// What is said as soon as nothing runs.
#[derive(Debug)]
pub(crate) enum NextTurn {
    /// A message that is complete.
    Message(UserMessage),
    /// Words that were typed, whose pictures are still to be read.
    Typed(Submission),
}

impl NextTurn {
    /// Returns the words.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Message(message) => message.text(),
            Self::Typed(typed) => typed.text,
        }
    }

    /// Returns what is seen of it while it waits.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Message(message) => message.text(),
            Self::Typed(typed) => typed.shown.clone(),
        }
    }
}

/// Something that runs in the conversation.
pub(crate) struct Running {
    pub(crate) task: JoinHandle<Done>,
    pub(crate) control: Control,
    pub(crate) since: Instant,
    pub(crate) what: What,
    pub(crate) interrupt: Interrupt,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A turn, with what began it, and how often that had been said before.
    Turn { words: String, before: usize },
    /// A turn that news of background jobs began.
    News,
    /// A command of the person's.
    Shell,
    /// Something else that takes its time.
    Work,
}

/// How far an interrupt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Nobody wants one.
    No,
    /// It is wanted, and what runs could not be told yet.
    Wanted,
    /// What runs has been told.
    Told,
}

/// What has run, with the conversation it ran in.
pub(crate) struct Done {
    pub(crate) conversation: Box<Conversation>,
    pub(crate) came: Came,
}

/// What came of it.
pub(crate) enum Came {
    /// A turn has ended.
    Turn(Box<TurnResult>),
    /// There was nothing new after all.
    NoNews,
    /// A command or other work has, with something to say or not.
    Work(Result<Option<String>, Trouble>),
}

impl Talk {
    /// Waits until what runs has ended; for ever, if nothing does.
    pub(crate) async fn ended(&mut self) -> Result<Done, JoinError> {
        match self {
            Self::Running(running) => (&mut running.task).await,
            Self::Idle(_) | Self::Gone => pending().await,
        }
    }

    /// Returns what runs, if something does.
    pub(crate) fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            Self::Idle(_) | Self::Gone => None,
        }
    }

    /// Takes the conversation out, if nothing runs in it.
    pub(crate) fn take(&mut self) -> Option<Box<Conversation>> {
        match std::mem::replace(self, Self::Gone) {
            Self::Idle(conversation) => Some(conversation),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Running {
    /// Interrupts it, at once or as soon as it can be told.
    pub(crate) fn interrupt(&mut self) {
        self.interrupt = if self.control.interrupt() { Interrupt::Told } else { Interrupt::Wanted };
    }

    /// Tells it of an interrupt that it could not be told of before.
    pub(crate) fn interrupt_if_wanted(&mut self) {
        if self.interrupt == Interrupt::Wanted {
            self.interrupt();
        }
    }
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle(_) => "Idle",
            Self::Running(_) => "Running",
            Self::Gone => "Gone",
        })
    }
}
