//! The board that a command acts on, and the person it acts for.

use std::path::PathBuf;

use serde::Serialize;
use tokio::sync::OnceCell;
use vestal_api::{WorkerEnd, closest_name};
use vestal_board::boards::{Boards, BoardsError, ChosenBy, CurrentBoard, Make, Slug};
use vestal_board::{Authority, Board, Error, Run, TaskId, settings};
use vestal_config::{ProfileName, Settings};
use vestal_dispatcher::{STOP_TIMEOUTS, Stopped, stop_worker};

use super::dispatch;
use crate::console::{Console, json};
use crate::context::Context;
use crate::error::CommandFailure;

/// The board that always exists, and is listed only once it has been made.
const DEFAULT: &str = "default";

/// In whose name people act who do not say.
const PERSON: &str = "user";

/// The board that a command is about. It is opened when it is first needed, and
/// made only by what writes.
pub(crate) struct BoardContext<'c> {
    pub(super) context: &'c Context,
    settings: Settings,
    boards: Boards,
    current: CurrentBoard,
    /// Whether the command line names the board.
    named: bool,
    board: OnceCell<Board>,
}

impl<'c> BoardContext<'c> {
    /// Finds the board; nothing is opened or made.
    pub(super) async fn new(
        context: &'c Context,
        named: Option<&str>,
    ) -> Result<Self, CommandFailure> {
        let settings = context.settings()?;
        let boards = settings::boards(&settings)?;
        let current = match named {
            Some(name) => CurrentBoard {
                slug: Slug::new(name).map_err(BoardsError::from).map_err(Error::from)?,
                by: ChosenBy::Environment,
                warning: None,
            },
            None => {
                boards
                    .current(vestal_board::keys::board_variable(context.environment()).as_deref())
                    .await?
            }
        };
        if let Some(warning) = &current.warning {
            context.console.warn(warning);
        }
        let named = named.is_some();
        Ok(Self { context, settings, boards, current, named, board: OnceCell::new() })
    }

    pub(super) fn console(&self) -> Console {
        self.context.console
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn boards(&self) -> &Boards {
        &self.boards
    }

    pub(super) fn slug(&self) -> &Slug {
        &self.current.slug
    }

    /// Returns who says which board it is.
    pub(super) fn chosen_by(&self) -> ChosenBy {
        self.current.by
    }

    /// Reports whether the command line names the board.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Returns where the board is, or would be.
    pub(super) fn dir(&self) -> PathBuf {
        self.boards.dir(self.slug())
    }

    /// Opens the board to write; the one that is always there is made if need be.
    pub(super) async fn board(&self) -> Result<Board, CommandFailure> {
        self.opened(Make::IfMissing).await
    }

    /// Opens the board to read. Nothing where the one that is always there has
    /// not been made yet, and is not made now.
    pub(super) async fn board_if_any(&self) -> Result<Option<Board>, CommandFailure> {
        if self.slug().is_default()
            && self.board.get().is_none()
            && !self.boards.exists(self.slug())?
        {
            return Ok(None);
        }
        self.opened(Make::Never).await.map(Some)
    }

    async fn opened(&self, make: Make) -> Result<Board, CommandFailure> {
        let open = || self.boards.open(self.slug(), make);
        let opened = self.board.get_or_try_init(open).await;
        opened.cloned().map_err(|error| self.explain(error))
    }

    /// Returns the failure of a call about boards. If there is no such board, it has the name that
    /// was probably meant.
    pub(super) fn explain(&self, error: Error) -> CommandFailure {
        let Error::Boards(BoardsError::Missing { slug }) = &error else { return error.into() };
        let wanted = slug.clone();
        // Without the names there is nothing to suggest; the error is the same.
        let names = self.boards.names().unwrap_or_default();
        let names = names.iter().map(Slug::as_str).chain([DEFAULT]);
        CommandFailure::from(error).suggest(wanted.as_str(), names)
    }

    /// Opens the board because something on it is wanted.
    pub(super) async fn existing(&self, wanted: &str) -> Result<Board, CommandFailure> {
        match self.board_if_any().await? {
            Some(board) => Ok(board),
            None => Err(Error::NotFound { wanted: wanted.to_owned() }.into()),
        }
    }

    /// Finds a task by its name or a beginning of it.
    pub(super) async fn task(&self, wanted: &str) -> Result<(Board, TaskId), CommandFailure> {
        let board = self.existing(wanted).await?;
        let id = board.find(wanted).await?;
        Ok((board, id))
    }

    /// Returns who asks: a person.
    #[expect(clippy::unused_self, reason = "it belongs to the context of a command")]
    pub(super) fn by(&self) -> Authority {
        Authority::Person(PERSON.to_owned())
    }

    /// As [`BoardContext::by`], by the name they give.
    pub(super) fn authority_of(&self, name: Option<&str>) -> Authority {
        match name.map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => Authority::Person(name.to_owned()),
            None => self.by(),
        }
    }

    /// Returns the profiles there are.
    pub(super) fn profiles(&self) -> Result<Vec<ProfileName>, CommandFailure> {
        Ok(self.context.home()?.profiles())
    }

    /// Says so if a profile is not there: its tasks would wait for ever.
    pub(super) fn warn_of_unknown(&self, profile: &ProfileName) -> Result<(), CommandFailure> {
        let home = self.context.home()?;
        if home.sibling(profile.clone()).exists() {
            return Ok(());
        }
        let profiles = home.profiles();
        let meant = closest_name(profile.as_str(), profiles.iter().map(ProfileName::as_str));
        let advice = match meant {
            Some(name) => format!("did you mean {name}?"),
            None => format!("to create it: vestal profile create {profile}"),
        };
        self.console().warn(&format!(
            "there is no profile {profile}, so no worker is started for it; {advice}"
        ));
        Ok(())
    }

    /// Returns the board's directory for tasks that need one and name none, as
    /// far as it is on this host.
    pub(super) async fn default_workdir(&self) -> Result<Option<PathBuf>, CommandFailure> {
        let Some(board) = self.board_if_any().await? else { return Ok(None) };
        Ok(board.info().await?.workdir_on(&self.boards.host().name))
    }

    /// Stops the worker of a run that has ended by our hand, if it is on this
    /// host, and returns what became of it.
    pub(super) async fn stop(&self, board: &Board, run: &Run) -> Result<WorkerEnd, CommandFailure> {
        let what = format!("stopping the worker of run {}", run.id);
        self.console().while_waiting(&what, self.end_worker(board, run)).await
    }

    /// As [`BoardContext::stop`], without a word to the person.
    pub(super) async fn end_worker(
        &self,
        board: &Board,
        run: &Run,
    ) -> Result<WorkerEnd, CommandFailure> {
        if run.gone {
            return Ok(WorkerEnd::None);
        }
        let launcher = dispatch::launcher(self)?;
        Ok(match stop_worker(board, run, Some(&launcher), STOP_TIMEOUTS).await? {
            Stopped::Gone => WorkerEnd::Stopped,
            Stopped::Survived(_) => WorkerEnd::Survives,
            Stopped::Elsewhere => WorkerEnd::Elsewhere,
        })
    }

    /// Prints a value as JSON, with nothing in it that a terminal obeys.
    pub(super) fn print(&self, value: &impl Serialize) -> Result<(), CommandFailure> {
        self.console().print(&json::shown(value)?)
    }

    /// Prints a value as one line of JSON.
    pub(super) fn print_line(&self, value: &impl Serialize) -> Result<(), CommandFailure> {
        self.console().write(&json::line(value)?)
    }

    /// Closes the board. All that was written is safe without it.
    pub(super) async fn close(&self) {
        if let Some(board) = self.board.get()
            && let Err(error) = board.close().await
        {
            tracing::debug!(%error, "the board was not closed tidily");
        }
    }
}
