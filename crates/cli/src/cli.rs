//! The command line: one enum of verbs, whose arguments stand beside what they do.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};
use vestal_config::{ConfigError, Override};
use vestal_sandbox::{Engine, TaskName, WhileBusy};

use crate::commands::{
    acp, chat, completions, config, conversations, cp, cron, dashboard, doctor, gateway, inspect,
    jobs, kanban, lifecycle, logs, mcp, memory, migrate, model, operations, profile, prune, ps,
    rebuild, restore, run, serve, shell, skills, snapshots, supervise, sync, usage,
};
use crate::error::CommandFailure;
use crate::find;

const AFTER_HELP: &str = "\
Exit codes: run, shell and wait return the exit code of the command. Otherwise: 0 success, 1 a
problem was found or a question was answered with no, 2 wrong usage, 124 timeout, 125 Vestal failed,
126 no such workdir, 130 interrupted. chat and model: 3 the provider failed, 4 stopped before the
end, 5 the provider refused.

Example:
  vestal run 'hostname; date >> visits; cat visits'";

const NAME: &str = "vestal";

/// Durable sandboxes: files, shell state and running processes are still there when you come back.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Use this profile: a home with its own settings, secrets and sandboxes.
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options",
        display_order = 997
    )]
    pub(crate) profile: Option<String>,

    /// What `--set` says before the verb and after it; see [`command`].
    #[arg(skip)]
    pub(crate) set: Vec<Override>,

    /// Whether the verb was asked for JSON.
    #[arg(skip)]
    pub(crate) json: bool,

    /// Report what is being done on standard error.
    #[arg(short, long, global = true, help_heading = "Global options", display_order = 999)]
    pub(crate) verbose: bool,
}

/// Returns the command line's description.
///
/// `--set` stands at every level: of an option that is merely global, what is
/// said before the verb would be lost when something is said after it too.
pub(crate) fn command() -> clap::Command {
    with_set(Cli::command())
}

fn with_set(command: clap::Command) -> clap::Command {
    let set = Arg::new(SET)
        .long("set")
        .value_name("KEY=VALUE")
        .value_parser(parse_override)
        .action(ArgAction::Append)
        .help_heading("Global options")
        .display_order(998)
        .help("Set a key for this command only, as in `--set terminal.retention_seconds=2h`; repeatable");
    command.arg(set).mut_subcommands(with_set)
}

/// Returns a description that is enough to read a correct command line: what a verb
/// takes is built when that verb is met. Building all of it takes as long as the
/// rest of a short command.
fn lean_command() -> clap::Command {
    let set = with_set(clap::Command::new(NAME).version(env!("CARGO_PKG_VERSION")));
    let verbs = VERBS.iter().map(|(name, takes)| clap::Command::new(*name).defer(*takes));
    Global::augment_args(set).subcommands(verbs)
}

/// Describes what a verb takes.
fn takes<A: Args>(verb: clap::Command) -> clap::Command {
    with_set(A::augment_args(verb))
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    parse_line(&std::env::args_os().collect::<Vec<_>>())
}

fn parse_line(line: &[OsString]) -> Result<Cli, clap::Error> {
    match lean_command().try_get_matches_from(line) {
        Ok(matches) => read(&matches),
        Err(version) if version.kind() == ErrorKind::DisplayVersion => Err(version),
        // Help, suggestions and usage need the whole description.
        Err(_) => {
            let matches = command().try_get_matches_from(line);
            read(&matches.map_err(|error| suggest_verb(error, line))?)
        }
    }
}

/// Words that are verbs of other programs, and the verb that is meant here.
const FOREIGN_VERBS: [(&str, &str); 24] = [
    ("ask", "chat"),
    ("attach", "shell"),
    ("board", "kanban"),
    ("create", "run"),
    ("delete", "rm"),
    ("enter", "shell"),
    ("exec", "run"),
    ("history", "conversations"),
    ("init", "model"),
    ("list", "ps"),
    ("login", "model"),
    ("ls", "ps"),
    ("models", "model"),
    ("profiles", "profile"),
    ("remove", "rm"),
    ("resume", "chat"),
    ("schedule", "cron"),
    ("sessions", "conversations"),
    ("settings", "config"),
    ("setup", "model"),
    ("ssh", "shell"),
    ("start", "run"),
    ("status", "ps"),
    ("tail", "logs"),
];

/// Adds the verb that was probably meant to an error about one that there is not: clap knows those
/// that look alike, and not those that mean the same.
fn suggest_verb(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let first = line.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let is_verb = first.is_some_and(|first| first.as_os_str() == typed.as_str());
    let meant = FOREIGN_VERBS.iter().find(|(word, _)| is_verb && word == typed);
    if let Some((_, meant)) = meant {
        let meant = ContextValue::Strings(vec![(*meant).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}

/// Reads words that stand where those of the command line would, without the
/// program's name.
pub(crate) fn parse_words(words: &[String]) -> Result<Cli, clap::Error> {
    let line = std::iter::once("vestal").chain(words.iter().map(String::as_str));
    read(&command().try_get_matches_from(line)?)
}

/// Returns the verbs or flags that the last of these words may become.
pub(crate) fn complete_words(words: &[String]) -> Vec<String> {
    let command = command();
    let (last, path) = match words.split_last() {
        Some((last, path)) => (last.as_str(), path),
        None => ("", words),
    };
    let mut at = &command;
    for word in path {
        match at.find_subcommand(word) {
            Some(found) => at = found,
            None => break,
        }
    }
    let verbs = at.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| verb.get_name().to_owned());
    let flags = at.get_arguments().filter(|flag| !flag.is_hide_set());
    let flags = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
    let wants_flag = last.starts_with('-');
    let candidates: Vec<String> = if wants_flag { flags.collect() } else { verbs.collect() };
    candidates.into_iter().filter(|candidate| candidate.starts_with(last)).collect()
}

fn read(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches).map_err(|error| error.format(&mut command()))?;
    let levels = std::iter::successors(Some(matches), |level| Some(level.subcommand()?.1));
    for level in levels {
        let json = level.try_get_one::<bool>("json").ok().flatten();
        cli.global.json |= json.copied().unwrap_or_default();
        cli.global.set.extend(level.get_many::<Override>(SET).into_iter().flatten().cloned());
    }
    Ok(cli)
}

const SET: &str = "set";

fn parse_override(text: &str) -> Result<Override, ConfigError> {
    Override::parse(&vestal_api::schema(), text)
}

/// The task a command is about.
#[derive(Debug, Clone, Args)]
pub(crate) struct TaskOption {
    /// Task whose sandbox to use.
    #[arg(short, long, value_name = "TASK", default_value = "default")]
    pub(crate) task: TaskName,
}

/// What is asked of a sandbox that may have to be made.
#[derive(Debug, Clone, Args)]
pub(crate) struct SandboxFlags {
    /// Backend to use if the sandbox has to be created; an existing sandbox must be on it.
    #[arg(short, long, value_name = "BACKEND")]
    pub(crate) backend: Option<String>,

    /// Container image to use if the sandbox has to be created, instead of `terminal.docker_image`.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Use the sandbox `TASK@DIRECTORY`, which has the current directory mounted as /workspace.
    #[arg(long)]
    pub(crate) mount_cwd: bool,
}

/// The tasks a command is about, named by position or by option.
#[derive(Debug, Clone, Args)]
pub(crate) struct TaskSelection {
    /// Tasks whose sandboxes to use.
    #[arg(value_name = "TASK")]
    tasks: Vec<TaskName>,

    /// Same as TASK, as an option.
    #[arg(short = 't', short_alias = 'n', long = "task", value_name = "TASK")]
    named: Vec<TaskName>,
}

impl TaskSelection {
    /// Reports whether no task is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.named.is_empty()
    }

    /// Returns the tasks that are meant by the names given.
    pub(crate) fn named(&self, engine: &Engine) -> Result<Vec<TaskName>, CommandFailure> {
        self.tasks.iter().chain(&self.named).map(|name| find::task(engine, Some(name))).collect()
    }

    /// Returns the tasks that are meant by the names given, or the default one.
    pub(crate) fn or_default(&self, engine: &Engine) -> Result<Vec<TaskName>, CommandFailure> {
        let named = self.named(engine)?;
        if named.is_empty() { Ok(vec![find::task(engine, None)?]) } else { Ok(named) }
    }
}

/// The one task a command is about, named by position or by option.
#[derive(Debug, Clone, Args)]
pub(crate) struct OneTask {
    /// Task whose sandbox to use.
    #[arg(value_name = "TASK", id = "one_task")]
    task: Option<TaskName>,

    /// Same as TASK, as an option.
    #[arg(short = 't', long = "task", value_name = "TASK", conflicts_with = "one_task")]
    named: Option<TaskName>,
}

impl OneTask {
    /// Reports whether a task is named.
    pub(crate) fn is_named(&self) -> bool {
        self.task.is_some() || self.named.is_some()
    }

    /// Returns the task that is meant by the name given, or the default one.
    pub(crate) fn or_default(&self, engine: &Engine) -> Result<TaskName, CommandFailure> {
        find::task(engine, self.task.as_ref().or(self.named.as_ref()))
    }
}

/// What is done about a sandbox that is in use.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Busy {
    /// Stop the sandbox first if it is in use, instead of refusing.
    #[arg(long)]
    stop: bool,
}

impl From<Busy> for WhileBusy {
    fn from(busy: Busy) -> Self {
        if busy.stop { Self::Stop } else { Self::Refuse }
    }
}

/// The task a job is looked for in.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobPlace {
    /// Task whose sandbox has the job [default: search all running sandboxes].
    #[arg(short, long, value_name = "TASK")]
    pub(crate) task: Option<TaskName>,
}

/// Declares the verbs: the enum that the command line is read into, and what each
/// of them takes by its name.
macro_rules! verbs {
    ($($variant:ident($args:ty) = $name:literal,)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Verb {
            $(#[command(name = $name)] $variant($args),)*
        }

        const VERBS: &[(&str, fn(clap::Command) -> clap::Command)] =
            &[$(($name, takes::<$args>),)*];
    };
}

verbs! {
    Run(run::RunArgs) = "run",
    Shell(shell::ShellArgs) = "shell",
    Chat(chat::ChatArgs) = "chat",
    Ps(ps::PsArgs) = "ps",
    Inspect(inspect::InspectArgs) = "inspect",
    Stats(ps::StatsArgs) = "stats",
    Jobs(jobs::JobsArgs) = "jobs",
    Logs(logs::LogsArgs) = "logs",
    Wait(jobs::WaitArgs) = "wait",
    Kill(jobs::KillArgs) = "kill",
    Write(jobs::WriteArgs) = "write",
    Cp(cp::CpArgs) = "cp",
    Snapshot(snapshots::SnapshotArgs) = "snapshot",
    Snapshots(snapshots::SnapshotsArgs) = "snapshots",
    Restore(restore::RestoreArgs) = "restore",
    Fork(restore::ForkArgs) = "fork",
    Rebuild(rebuild::RebuildArgs) = "rebuild",
    Sync(sync::SyncArgs) = "sync",
    Touch(lifecycle::TouchArgs) = "touch",
    Stop(lifecycle::StopArgs) = "stop",
    Rm(lifecycle::RmArgs) = "rm",
    Prune(prune::PruneArgs) = "prune",
    Operations(operations::OperationsArgs) = "operations",
    Conversations(conversations::ConversationsArgs) = "conversations",
    Cron(cron::CronArgs) = "cron",
    Dashboard(dashboard::DashboardArgs) = "dashboard",
    Gateway(gateway::GatewayArgs) = "gateway",
    Serve(serve::ServeArgs) = "serve",
    Acp(acp::AcpArgs) = "acp",
    Supervise(supervise::SuperviseArgs) = "supervise",
    Kanban(kanban::KanbanArgs) = "kanban",
    Mcp(mcp::McpArgs) = "mcp",
    Memory(memory::MemoryArgs) = "memory",
    Migrate(migrate::MigrateArgs) = "migrate",
    Model(model::ModelArgs) = "model",
    Profile(profile::ProfileArgs) = "profile",
    Skills(skills::SkillsArgs) = "skills",
    Usage(usage::UsageArgs) = "usage",
    Config(config::ConfigArgs) = "config",
    Doctor(doctor::DoctorArgs) = "doctor",
    Completions(completions::CompletionsArgs) = "completions",
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Cli {
        parse_line(&line.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
        lean_command().debug_assert();
    }

    #[test]
    fn the_lean_description_takes_what_the_whole_one_does() {
        fn taken(command: &clap::Command, path: &str, all: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            all.extend(command.get_arguments().map(|arg| format!("{path}: {arg:?}")));
            command.get_subcommands().for_each(|verb| taken(verb, &path, all));
        }
        let [whole, lean] = [command(), lean_command()].map(|mut command| {
            command.build();
            let mut all = Vec::new();
            taken(&command, "", &mut all);
            all.sort();
            all
        });
        assert_eq!(lean, whole);
    }

    #[test]
    fn every_command_shows_an_example() {
        fn walk(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{path} has no example");
            command.get_subcommands().for_each(|command| walk(command, &path));
        }
        walk(&command(), "");
    }

    #[test]
    fn a_task_is_named_by_position_or_by_the_same_option_everywhere() {
        for verb in
            ["inspect", "stats", "sync", "touch", "stop", "rm", "snapshot", "snapshots", "rebuild"]
        {
            for words in [&["web"][..], &["-t", "web"], &["--task", "web"]] {
                let line = ["vestal", verb].into_iter().chain(words.iter().copied());
                assert!(command().try_get_matches_from(line).is_ok(), "{verb} {words:?}");
            }
        }
    }

    #[test]
    fn what_is_set_before_and_after_the_verb_holds() {
        let texts = ["terminal.timeout=1", "terminal.timeout=2", "terminal.timeout=3"];
        let [a, b, c] = texts;
        let cli = parsed(&["vestal", "--set", a, "config", "--set", b, "show", "--set", c]);
        let shown: Vec<String> = cli.global.set.iter().map(|set| format!("{set:?}")).collect();
        let expected = texts.map(|text| Override::parse(&vestal_api::schema(), text).unwrap());
        assert_eq!(shown, expected.map(|set| format!("{set:?}")));
    }

    #[test]
    fn what_follows_the_command_belongs_to_it() {
        let argv = |line: &[&str]| match parsed(line).verb {
            Some(Verb::Run(run)) => run.command,
            other => panic!("{other:?}"),
        };
        assert_eq!(argv(&["vestal", "run", "ls", "-la", "-p"]), ["ls", "-la", "-p"]);
        assert_eq!(
            argv(&["vestal", "run", "-t", "x", "--", "ls", "--", "-la"]),
            ["ls", "--", "-la"]
        );
        assert_eq!(argv(&["vestal", "-p", "x", "run", "--timeout", "5", "a b"]), ["a b"]);
        assert_eq!(argv(&["vestal", "run", "ls", "--", "-la"]), ["ls", "--", "-la"]);
        assert_eq!(argv(&["vestal", "run", "--", "--bakground"]), ["--bakground"]);
        assert_eq!(argv(&["vestal", "run", "-"]), ["-"]);
    }

    #[test]
    fn a_mistyped_verb_is_answered_with_the_one_that_was_meant() {
        fn walk(level: &clap::Command, path: &[&str]) {
            for verb in level.get_subcommands().filter(|verb| verb.get_name().len() > 3) {
                let name = verb.get_name();
                // A word in the place of a verb may be a name instead.
                if level.get_positionals().next().is_none() {
                    let slip = format!("{}{}", &name[..1], &name[2..]);
                    let line = path.iter().copied().chain([slip.as_str()]);
                    let error = command().try_get_matches_from(line).unwrap_err().to_string();
                    assert!(error.contains(&format!("'{name}'")), "{path:?} {slip}: {error}");
                }
                walk(verb, &[path, &[name]].concat());
            }
        }
        walk(&command(), &[NAME]);
    }

    #[test]
    fn a_verb_of_another_program_gets_the_one_that_is_meant() {
        for (word, meant) in FOREIGN_VERBS {
            assert!(command().find_subcommand(word).is_none(), "{word} is a verb");
            assert!(command().find_subcommand(meant).is_some(), "{meant} is none");
            let line = [NAME, word].map(OsString::from).to_vec();
            let error = parse_line(&line).unwrap_err().to_string();
            assert!(error.contains(&format!("'{meant}'")), "{word}: {error}");
        }
        let line = [NAME, "kanban", "tail"].map(OsString::from).to_vec();
        let error = parse_line(&line).unwrap_err().to_string();
        assert!(!error.contains("'logs'"), "{error}");
    }

    #[test]
    fn an_unknown_option_before_the_command_is_refused_with_a_suggestion() {
        let refused = |line: &[&str]| {
            let error = command().try_get_matches_from(line).unwrap_err();
            (error.kind(), error.to_string())
        };
        for (line, meant) in [
            (&["vestal", "run", "--timout", "5", "true"][..], "--timeout"),
            (&["vestal", "run", "--bakground", "true"], "--background"),
            (&["vestal", "run", "-t", "web", "--jsn", "true"], "--json"),
            (&["vestal", "write", "j-06f3", "--newlin", "yes"], "--newline"),
        ] {
            let (kind, text) = refused(line);
            assert_eq!(kind, clap::error::ErrorKind::UnknownArgument, "{line:?}: {text}");
            assert!(text.contains(&format!("'{meant}'")), "{line:?}: {text}");
        }
        // A short option has no similar one; the error names what to write instead.
        let (kind, text) = refused(&["vestal", "run", "-x", "true"]);
        assert_eq!(kind, clap::error::ErrorKind::UnknownArgument);
        assert!(text.contains("-- -x"), "{text}");
    }
}
