//! `vestal completions`.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::cli;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal completions bash > ~/.local/share/bash-completion/completions/vestal
  vestal completions zsh > ~/.zfunc/_vestal
  vestal completions fish > ~/.config/fish/completions/vestal.fish";

/// Prints the completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: KnownShell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(context: &Context, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "vestal", &mut script);
    context.console.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
