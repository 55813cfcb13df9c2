//! The terminal in other hands.

use std::sync::Arc;

use tokio::task::JoinHandle;
use vestal_agent::EndReason;

use crate::chat::Chat;
use crate::program::{Open, Opened, Trouble};
use crate::run::Left;

/// What somebody does with the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lent {
    /// Writes lines: one of ours may stand between them.
    Lines,
    /// Fills the screen.
    Screen,
}

impl Chat {
    /// Runs a command of the command line on the terminal, which is in its
    /// usual mode meanwhile. Returns whether it went well; why not has been
    /// said by then.
    pub(crate) async fn aside(&mut self, words: Vec<String>) -> bool {
        if !self.give_away() {
            return false;
        }
        let program = Arc::clone(&self.program);
        let verb = tokio::spawn(async move { program.verb(words).await });
        let went_well = self.while_lent(verb, Lent::Lines).await;
        self.take_back();
        went_well.unwrap_or_else(|error| {
            tracing::error!(%error, "a command broke");
            self.trouble(&Trouble {
                problem: "the command broke off because of a mistake in this program".to_owned(),
                advice: vec!["the conversation is not touched by it".to_owned()],
            });
            false
        })
    }

    /// Waits for whoever has the terminal. A question that comes meanwhile is
    /// made known as far as that can be: it would run out of time unseen.
    async fn while_lent<T>(
        &mut self,
        mut work: JoinHandle<T>,
        lent: Lent,
    ) -> Result<T, tokio::task::JoinError> {
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                pending = self.questions.next() => {
                    self.ask(pending);
                    self.ring_anyway();
                    if lent == Lent::Lines {
                        self.note("the agent asks something and waits for the answer; Ctrl-C goes back to it");
                        // A terminal that is gone is noticed when it is taken back.
                        self.screen.clear().ok();
                    }
                }
            }
        }
    }

    /// Lets the input be edited with the person's own editor.
    pub(crate) async fn edit_externally(&mut self) {
        let environment = self.settings.environment();
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| {
            environment.get(name)?.to_str().map(str::trim).filter(|it| !it.is_empty())
        });
        let editor = editor.unwrap_or("vi").to_owned();
        let text = self.editor.text();
        if !self.give_away() {
            return;
        }
        let editing =
            tokio::task::spawn_blocking(move || vestal_tui::edit_externally(&text, &editor));
        let edited = self.while_lent(editing, Lent::Screen).await;
        self.take_back();
        match edited {
            Ok(Ok(text)) => self.editor.set_text(&text),
            Ok(Err(error)) => self.trouble(&Trouble {
                problem: error.to_string(),
                advice: vec!["VISUAL or EDITOR names the editor".to_owned()],
            }),
            Err(_) => self.warn("the editor could not be waited for; the text is as it was"),
        }
    }

    /// Stops the process until somebody lets it go on. A turn that runs is
    /// stopped with it; what runs in the sandbox goes on.
    pub(crate) fn stop(&mut self) {
        let stopped = self.screen.clear().and_then(|()| self.lend.stop());
        self.taken_back(stopped);
    }

    /// Takes the live area down and puts the terminal into its usual mode.
    fn give_away(&mut self) -> bool {
        let given = self.screen.clear().and_then(|()| self.lend.lend());
        if let Err(error) = given {
            self.trouble(&Trouble {
                problem: format!("failed to give the terminal away: {error}"),
                advice: Vec::new(),
            });
            return false;
        }
        true
    }

    fn take_back(&mut self) {
        let taken = self.lend.take_back();
        self.taken_back(taken);
    }

    fn taken_back(&mut self, taken: std::io::Result<Option<vestal_tui::Size>>) {
        match taken {
            Ok(size) => {
                if let Some(size) = size {
                    self.resized(size);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the terminal could not be taken back");
                self.leaving = Some(Left::Closed);
            }
        }
        // Ctrl-C was meant for whoever had the terminal.
        while let Ok(signal) = self.signals.try_recv() {
            if signal != vestal_sandbox::Termination::Interrupt {
                self.leaving = Some(Left::Signal(signal));
            }
        }
        self.last = None;
        self.is_dirty = true;
        self.watch.look();
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
        self.live.tally = crate::tally::Tally::default();
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
