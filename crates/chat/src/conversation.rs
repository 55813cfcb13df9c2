//! The conversation of the chat: who owns it right now, and how it is replaced by another one.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use vestal_agent::settings::endpoints;
use vestal_agent::{Control, Conversation, EndReason, TurnResult};
use vestal_config::Settings;
use vestal_model::{Endpoint, UserMessage};
use vestal_tui::Submission;

use crate::chat::{About, Chat};
use crate::host::{Open, Opened, Trouble};

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

impl Chat {
    /// Takes note of a conversation that has come into the chat's hands.
    pub(crate) fn settle(&mut self, conversation: Box<Conversation>) {
        self.about = About::of(&conversation);
        let context = conversation.context_used();
        self.status.used = context.tokens;
        self.status.holds = context.window;
        self.status.model.clone_from(&self.about.model);
        self.wake.wait_for(conversation.job_watch());
        self.talk = Talk::Idle(conversation);
    }

    /// Goes on with another conversation; the one before is closed.
    pub(crate) async fn switch(&mut self, what: Open) -> Result<(), Trouble> {
        let Some(before) = self.talk.take() else {
            return Err(Trouble {
                problem: "a turn runs in this conversation".to_owned(),
                advice: vec!["interrupt it with Ctrl-C first".to_owned()],
            });
        };
        let id = before.id().clone();
        // Nobody can open a conversation that is still held: not even we.
        let is_same = matches!(&what, Open::Resume { id: wanted, .. } if *wanted == id);
        if is_same {
            close(before).await;
            return match self.open(what).await {
                Ok(opened) => {
                    self.enter(opened).await;
                    Ok(())
                }
                Err(trouble) => {
                    let again = Open::Resume { id, task: None, model: None };
                    match self.open(again).await {
                        Ok(opened) => self.settle(Box::new(opened.conversation)),
                        Err(_) => self.leave(),
                    }
                    Err(trouble)
                }
            };
        }
        match self.open(what).await {
            Ok(opened) => {
                close(before).await;
                self.enter(opened).await;
                Ok(())
            }
            Err(trouble) => {
                self.settle(before);
                Err(trouble)
            }
        }
    }

    pub(crate) async fn open(&mut self, what: Open) -> Result<Opened, Trouble> {
        let program = Arc::clone(&self.program);
        self.wait_for("opening the conversation", program.open(what)).await?
    }

    /// Begins to work in a conversation that was opened.
    async fn enter(&mut self, opened: Opened) {
        let Opened { conversation, is_resumed, notices } = opened;
        let before = self.about.workshop.sandbox_task();
        self.settle(Box::new(conversation));
        let task = self.about.workshop.sandbox_task();
        if task != before {
            // Nothing is known of the other place yet.
            self.status.place = self.place_of(self.about.workshop.task(), None);
            self.status.state = "";
            self.status.jobs = 0;
            self.jobs.clear();
        }
        self.live.tally = crate::live::Tally::default();
        self.status.paid = None;
        self.status.is_paid_partly = false;
        self.watch.turn_to(&task);
        self.greet();
        for notice in notices {
            self.note(&notice);
        }
        if is_resumed {
            self.show_last_exchanges().await;
        }
    }
}

async fn close(conversation: Box<vestal_agent::Conversation>) {
    if let Err(error) = conversation.close(EndReason::NewConversation).await {
        tracing::warn!(%error, "the conversation could not be closed");
    }
}

impl Chat {
    /// Reads `config.yaml` and `.env` again.
    pub(crate) fn reread_settings(&mut self) {
        self.settings = Arc::new(self.settings.reload());
    }
}

/// Returns who is to be asked in a conversation in place of who is: the same
/// model at the same provider, where its address or its key is another by now.
/// Whoever puts a wrong key right need not begin the chat anew.
pub(crate) fn chain(settings: &Settings, conversation: &Conversation) -> Option<Vec<Endpoint>> {
    let asked = conversation.model()?;
    let chain = endpoints(settings, Some(&format!("{}:{}", asked.name, asked.model))).ok()?;
    let now = chain.first()?;
    let is_same_model = now.name == asked.name && now.model == asked.model;
    let is_same = now.base_url == asked.base_url && now.key == asked.key && now.api == asked.api;
    (is_same_model && !is_same).then_some(chain)
}
