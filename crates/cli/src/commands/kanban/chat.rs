//! `/kanban …` in a conversation: the same verbs, without asking a model.

use clap::{Args as _, Command, FromArgMatches as _};

use super::KanbanArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const SHORT_HELP: &str = "\
/kanban list                       tasks, what needs you first
/kanban show ID                    everything about a task
/kanban create TITLE -a PROFILE    a new task
/kanban comment ID TEXT            say something about it
/kanban unblock ID --reason TEXT   let a blocked task go on
/kanban complete ID                say that it is done
/kanban dispatch                   start workers for ready tasks
/kanban VERB --help                how a verb is used; /kanban --help lists all of them";

/// Runs the words that follow `/kanban`. All that is said goes through the
/// console of the context, as everywhere else.
pub(crate) async fn run(context: &Context, words: &[String]) -> Result<Exit, Failure> {
    if words.is_empty() {
        context.console.print(SHORT_HELP)?;
        return Ok(Exit::Success);
    }
    let command = command();
    let args = command
        .try_get_matches_from(words)
        .and_then(|matches| KanbanArgs::from_arg_matches(&matches));
    match args {
        Ok(args) => Box::pin(super::run(context, args)).await,
        Err(error) => Ok(context.console.explain_usage(&error)),
    }
}

fn command() -> Command {
    let command = Command::new("/kanban").no_binary_name(true).max_term_width(100);
    KanbanArgs::augment_args(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_are_those_of_the_command_line() {
        command().debug_assert();
        let given = ["--board", "web", "list", "--status", "ready"];
        let matches = command().try_get_matches_from(given).unwrap();
        assert_eq!(KanbanArgs::from_arg_matches(&matches).unwrap().board.as_deref(), Some("web"));
        assert!(command().try_get_matches_from(["lst"]).is_err());
    }
}
