//! The command line: one enum of verbs, whose arguments stand beside what they do.

use clap::{Args, Parser, Subcommand};
use vestal_config::{ConfigError, Override};
use vestal_sandbox::Task;

use crate::commands::{
    completions, config, cp, doctor, inspect, jobs, kill, logs, prune, ps, rm, run, shell, stats,
    stop, touch, wait, write,
};

const AFTER_HELP: &str = "\
Exit codes: the command's own for run, shell and wait; otherwise 0. 1 something is not in order or
was declined, 2 wrong usage, 124 timeout, 125 Vestal failed, 126 no such workdir, 130 interrupted.

Example:
  vestal run 'hostname; date >> visits; cat visits'";

/// Durable sandboxes: files, shell state and running processes are still there when you come back.
#[derive(Debug, Parser)]
#[command(name = "vestal", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Profile to use: an isolated home with its own settings and sandboxes.
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) profile: Option<String>,

    /// Sets a key for this call only, as in `--set terminal.retention_seconds=2h`; repeatable.
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = parse_override,
          help_heading = "Global options")]
    pub(crate) set: Vec<Override>,

    /// Says on standard error what is being done.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
}

fn parse_override(text: &str) -> Result<Override, ConfigError> {
    Override::parse(text)
}

/// The task a command is about.
#[derive(Debug, Clone, Args)]
pub(crate) struct TaskOption {
    /// Task whose sandbox is meant.
    #[arg(short, long, value_name = "TASK", default_value = "default")]
    pub(crate) task: Task,
}

/// The tasks a command is about, named by position or by option.
#[derive(Debug, Clone, Args)]
pub(crate) struct Tasks {
    /// Tasks whose sandboxes are meant.
    #[arg(value_name = "TASK")]
    tasks: Vec<Task>,

    /// The same by name.
    #[arg(short, long = "task", value_name = "TASK")]
    named: Vec<Task>,
}

impl Tasks {
    /// Returns the tasks named.
    pub(crate) fn named(&self) -> Vec<Task> {
        self.tasks.iter().chain(&self.named).cloned().collect()
    }

    /// Returns the tasks named, or the default one.
    pub(crate) fn or_default(&self) -> Vec<Task> {
        let named = self.named();
        if named.is_empty() { vec![Task::default_task()] } else { named }
    }
}

/// The task a job is looked for in.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobPlace {
    /// Task whose sandbox the job is in; without it all running sandboxes are searched.
    #[arg(short, long, value_name = "TASK")]
    pub(crate) task: Option<Task>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::RunArgs),
    Shell(shell::ShellArgs),
    Ps(ps::PsArgs),
    Inspect(inspect::InspectArgs),
    Stats(stats::StatsArgs),
    Jobs(jobs::JobsArgs),
    Logs(logs::LogsArgs),
    Wait(wait::WaitArgs),
    Kill(kill::KillArgs),
    Write(write::WriteArgs),
    Cp(cp::CpArgs),
    Touch(touch::TouchArgs),
    Stop(stop::StopArgs),
    Rm(rm::RmArgs),
    Prune(prune::PruneArgs),
    Config(config::ConfigArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn walk(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{path} has no example");
            command.get_subcommands().for_each(|command| walk(command, &path));
        }
        walk(&Cli::command(), "");
    }

    #[test]
    fn what_follows_the_command_belongs_to_it() {
        let argv = |line: &[&str]| match Cli::try_parse_from(line).unwrap().verb {
            Some(Verb::Run(run)) => run.command,
            other => panic!("{other:?}"),
        };
        assert_eq!(argv(&["vestal", "run", "ls", "-la", "-p"]), ["ls", "-la", "-p"]);
        assert_eq!(
            argv(&["vestal", "run", "-t", "x", "--", "ls", "--", "-la"]),
            ["ls", "--", "-la"]
        );
        assert_eq!(argv(&["vestal", "-p", "x", "run", "--timeout", "5", "a b"]), ["a b"]);
    }
}
