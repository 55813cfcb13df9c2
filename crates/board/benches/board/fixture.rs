//! A home with a board in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use vestal_bench::Result;
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::Durability;
use vestal_board::{Authority, Board, HostId, HostName, NewTask};
use vestal_config::ProfileName;
use vestal_testkit::TestHome;

/// The board that lists and completions are measured on.
pub(crate) const LARGE: usize = 50_000;

/// Whose tasks the boards are full of.
pub(crate) const PROFILES: [&str; 5] = ["default", "ada", "grace", "joan", "mary"];
const TENANTS: [&str; 2] = ["acme", "umbra"];

pub(crate) struct BoardFixture {
    home: TestHome,
}

pub(crate) fn person() -> Authority {
    Authority::Person("user".to_owned())
}

impl BoardFixture {
    pub(crate) fn new() -> Result<Self> {
        let home = TestHome::create();
        std::fs::create_dir(home.vestal())?;
        Ok(Self { home })
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.vestal()
    }

    /// Opens the board that the program uses, too.
    pub(crate) async fn open(&self) -> Result<Board> {
        let host = HostId::this(HostName::of_this_machine())?;
        let boards = Boards::at(self.home().join("kanban"), host, Durability::Full);
        Ok(boards.open_to_write(&Slug::default_board()).await?)
    }

    /// Returns the program with nothing in its environment but what it needs.
    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.home.command(program);
        command.arg("kanban").args(arguments);
        command
    }
}

/// Returns a task as people make them. They are of several profiles and tenants.
pub(crate) fn task(number: usize) -> Result<NewTask> {
    let name = PROFILES.get(number % PROFILES.len()).copied().unwrap_or_default();
    let tenant = TENANTS.get(number / PROFILES.len() % TENANTS.len()).copied();
    Ok(NewTask {
        title: format!("Write down what came of experiment {number}"),
        body: "Read the notes, draw the figures anew, and say what we know now.\n".repeat(3),
        assignee: Some(ProfileName::new(name)?),
        tenant: tenant.map(str::to_owned),
        priority: i64::try_from(number % 7)?,
        ..NewTask::default()
    })
}
