//! `vestal completions`: what shells, man and the documentation know of the commands.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use vestal_board::Status;

use super::{cron, kanban};
use crate::cli;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::reference;

const AFTER_HELP: &str = "\
The scripts also complete the names of profiles, boards, tasks and schedules, by asking this program.

Examples:
  vestal completions bash > ~/.local/share/bash-completion/completions/vestal
  vestal completions zsh > ~/.zfunc/_vestal
  vestal completions fish > ~/.config/fish/completions/vestal.fish";

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for.
    #[arg(value_name = "SHELL", required_unless_present_any = ["values", "words", "reference", "man"])]
    shell: Option<KnownShell>,

    /// Print existing names, one per line; called by the completion scripts.
    #[arg(long, value_name = "WHAT", hide = true, conflicts_with = "shell")]
    values: Option<Values>,

    /// Print what could be typed in place of the last word of a command line, one per line; called
    /// by conversations without a terminal.
    #[arg(long, hide = true, conflicts_with_all = ["shell", "values"])]
    words: bool,

    /// Print the page of the documentation that describes every command.
    #[arg(long, hide = true, conflicts_with_all = ["shell", "values", "words"])]
    reference: bool,

    /// Write a man page for every command to a directory.
    #[arg(
        long,
        value_name = "DIRECTORY",
        hide = true,
        conflicts_with_all = ["shell", "values", "words", "reference"]
    )]
    man: Option<PathBuf>,

    /// The command line.
    #[arg(last = true, hide = true, requires = "words")]
    line: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Names that only a look at the disk tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Values {
    Profiles,
    Boards,
    Tasks,
    Schedules,
}

impl Values {
    const ALL: [Self; 4] = [Self::Profiles, Self::Boards, Self::Tasks, Self::Schedules];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Profiles => "profiles",
            Self::Boards => "boards",
            Self::Tasks => "tasks",
            Self::Schedules => "schedules",
        }
    }

    /// Returns what stands in a generated script where the names belong. It is
    /// a word that no shell changes.
    const fn mark(self) -> &'static str {
        match self {
            Self::Profiles => "VESTAL_NAMES_OF_PROFILES",
            Self::Boards => "VESTAL_NAMES_OF_BOARDS",
            Self::Tasks => "VESTAL_NAMES_OF_TASKS",
            Self::Schedules => "VESTAL_NAMES_OF_SCHEDULES",
        }
    }
}

pub(crate) async fn run(context: &Context, args: &CompletionsArgs) -> Result<Exit, CommandFailure> {
    if args.words {
        let offered = cli::complete_words(&args.line);
        if !offered.is_empty() {
            context.console.print(&offered.join("\n"))?;
        }
        return Ok(Exit::Success);
    }
    if let Some(values) = args.values {
        let names = match values {
            Values::Profiles => {
                context.home()?.profiles().iter().map(ToString::to_string).collect()
            }
            Values::Boards => kanban::board_names(context).await?,
            Values::Tasks => kanban::task_names(context).await?,
            Values::Schedules => cron::schedule_names(context).await?,
        };
        if !names.is_empty() {
            context.console.print(&names.join("\n"))?;
        }
        return Ok(Exit::Success);
    }
    if args.reference {
        context.console.write(&reference::page())?;
    }
    if let Some(directory) = &args.man {
        clap_mangen::generate_to(cli::command(), directory)
            .map_err(|error| CommandFailure::io("write the man pages", &error))?;
    }
    if let Some(shell) = args.shell {
        context.console.write(&script(shell))?;
    }
    Ok(Exit::Success)
}

fn script(shell: KnownShell) -> String {
    let generator = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    let mut command = marked(cli::command(), CompletionScope::Program);
    clap_complete::generate(generator, &mut command, "vestal", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if matches!(shell, KnownShell::Fish) {
        script.push_str(&fish_schedules(&command));
    }
    for values in Values::ALL {
        let (mark, name) = (values.mark(), values.as_str());
        let asked = format!("$(vestal completions --values {name} 2>/dev/null)");
        script = match shell {
            KnownShell::Bash => script.replace(mark, &asked),
            KnownShell::Zsh => {
                script.replace(&format!("({mark})"), &format!("{{compadd -- ${{(f)\"{asked}\"}}}}"))
            }
            KnownShell::Fish => {
                let asked = format!("(vestal completions --values {name} 2>/dev/null)");
                script.replace(&format!("{mark}\\t''"), &asked)
            }
        };
    }
    script
}

/// Returns the line that offers schedules to fish, for which the generator describes options only.
fn fish_schedules(command: &clap::Command) -> String {
    let Some(cron) = command.find_subcommand("cron") else { return String::new() };
    let takes_id = |verb: &&clap::Command| {
        verb.get_positionals().any(|arg| {
            arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "ID"))
        })
    };
    let verbs: Vec<&str> =
        cron.get_subcommands().filter(takes_id).map(clap::Command::get_name).collect();
    format!(
        "complete -c vestal -n \"__fish_vestal_using_subcommand cron; and __fish_seen_subcommand_from {}\" -f -a \"{}\\t''\"\n",
        verbs.join(" "),
        Values::Schedules.mark()
    )
}

/// What part of the command line is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionScope {
    Program,
    Board,
    Schedules,
}

/// Puts marks where names belong that only a look at the disk tells.
fn marked(command: clap::Command, within: CompletionScope) -> clap::Command {
    let within = match command.get_name() {
        "kanban" => CompletionScope::Board,
        "cron" => CompletionScope::Schedules,
        _ => within,
    };
    let command = command.mut_args(|arg| {
        let named =
            arg.get_value_names().and_then(|names| names.first()).map(clap::builder::Str::as_str);
        let values = match (named, within) {
            (Some("PROFILE"), CompletionScope::Board) => Values::Profiles,
            (Some("SLUG"), CompletionScope::Board) => Values::Boards,
            (Some("ID"), CompletionScope::Board) => Values::Tasks,
            (Some("ID"), CompletionScope::Schedules) => Values::Schedules,
            (Some("NAME"), CompletionScope::Program | CompletionScope::Schedules)
                if arg.get_id() == "profile" =>
            {
                Values::Profiles
            }
            (Some("STATUS"), CompletionScope::Board) if arg.get_id() == "statuses" => {
                let names = Status::ALL.iter().map(|status| status.as_str());
                return arg.value_parser(PossibleValuesParser::new(names));
            }
            _ => return arg,
        };
        arg.value_parser(PossibleValuesParser::new([values.mark()]))
    });
    command.mut_subcommands(|command| marked(command, within))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_profiles_boards_and_tasks_are_asked_for_and_statuses_are_known() {
        for shell in [KnownShell::Bash, KnownShell::Zsh, KnownShell::Fish] {
            let script = script(shell);
            for values in Values::ALL {
                let asked = format!("vestal completions --values {} 2>/dev/null", values.as_str());
                assert!(script.contains(&asked), "{shell:?}: {values:?}");
                assert!(!script.contains(values.mark()), "{shell:?}: {values:?}");
            }
            assert!(script.contains("scheduled") && script.contains("archived"), "{shell:?}");
        }
    }
}
