//! What the benchmark is asked to do.

use std::time::Duration;

use crate::Result;
use vestal_bench::report::ReportFormat;
use vestal_bench::sample::Rounds;

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Runs that are not counted.
    pub(crate) warm_up: usize,
    /// Commands per row.
    pub(crate) commands: usize,
    /// New processes per row.
    pub(crate) processes: usize,
    /// Operations on files per row.
    pub(crate) files: usize,
    /// Times the output is streamed.
    pub(crate) streams: usize,
    /// Sandboxes of namespaces made per row.
    pub(crate) lives: usize,
    /// Copies made per row.
    pub(crate) forks: usize,
    /// How much less is done where the alternative is an engine's, which takes
    /// far longer than a shell.
    pub(crate) containers: ContainerPlan,
}

/// How often each thing is done in containers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContainerPlan {
    /// Runs that are not counted.
    pub(crate) warm_up: usize,
    /// Commands per row.
    pub(crate) commands: usize,
    /// New processes per row.
    pub(crate) processes: usize,
    /// Sandboxes made, and started again.
    pub(crate) lives: usize,
    /// Times the output is streamed.
    pub(crate) streams: usize,
    /// Bytes of it.
    pub(crate) stream: u64,
}

impl Plan {
    /// Returns the rounds of a row of commands.
    pub(crate) const fn commands(self) -> Rounds {
        Rounds::new(self.warm_up, self.commands)
    }
}

impl ContainerPlan {
    /// Returns the rounds of a row of commands.
    pub(crate) const fn commands(self) -> Rounds {
        Rounds::new(self.warm_up, self.commands).resting(REST)
    }

    /// Returns the rounds of a row of new processes.
    pub(crate) const fn processes(self) -> Rounds {
        Rounds::new(self.warm_up, self.processes).resting(REST)
    }
}

/// Longer than an engine clears up after a command.
const REST: Duration = Duration::from_millis(30);

const SHORT: Plan = Plan {
    warm_up: 10,
    commands: 100,
    processes: 50,
    files: 200,
    streams: 1,
    lives: 30,
    forks: 5,
    containers: ContainerPlan {
        warm_up: 5,
        commands: 40,
        processes: 20,
        lives: 5,
        streams: 3,
        stream: 256 << 20,
    },
};
const LONG: Plan = Plan {
    warm_up: 50,
    commands: 1500,
    processes: 500,
    files: 3000,
    streams: 5,
    lives: 200,
    forks: 15,
    containers: ContainerPlan {
        warm_up: 20,
        commands: 400,
        processes: 150,
        lives: 20,
        streams: 5,
        stream: 1 << 30,
    },
};

/// The backends that have rows.
const BACKENDS: [&str; 6] = ["local", "native", "docker", "podman", "ssh", "kubernetes"];

/// The command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) format: ReportFormat,
    /// The one backend whose rows are wanted.
    pub(crate) only: Option<String>,
}

impl Options {
    pub(crate) fn from_arguments() -> Result<Self> {
        let mut options = Self { plan: LONG, format: ReportFormat::Table, only: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => {
                    let name = arguments.next().filter(|name| BACKENDS.contains(&&**name));
                    options.only =
                        Some(name.ok_or_else(|| {
                            format!("--only needs one of {}", BACKENDS.join(", "))
                        })?);
                }
                "--short" => options.plan = SHORT,
                "--json" => options.format = ReportFormat::Json,
                // Cargo says this to every benchmark.
                "--bench" => {}
                other => {
                    return Err(
                        format!("{other}: only --short, --only and --json are known").into()
                    );
                }
            }
        }
        Ok(options)
    }
}
