//! Questions before something goes.

use std::io::{self, IsTerminal as _};

use crate::console::Console;
use crate::error::CommandFailure;

/// Says what is about to happen and asks whether it may. Where there is no
/// terminal to ask on, that is refused with the text of the question; `verb`
/// says what was not done.
pub(crate) fn is_confirmed(
    console: Console,
    verb: &str,
    question: &str,
    plans: &[String],
) -> Result<bool, CommandFailure> {
    announce(console, verb, plans)?;
    Ok(console.ask(question))
}

/// As [`is_confirmed`] for what nobody should agree to by accident: its name is
/// to be typed.
pub(crate) fn is_named(
    console: Console,
    verb: &str,
    name: &str,
    plans: &[String],
) -> Result<bool, CommandFailure> {
    announce(console, verb, plans)?;
    let answer = console.ask_for(&format!("To {verb} it, type its name ({name}):"));
    Ok(answer.as_deref() == Some(name))
}

/// Reports whether a person can be asked.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Prints what is about to happen, before a question.
fn announce(console: Console, verb: &str, plans: &[String]) -> Result<(), CommandFailure> {
    if !is_possible() {
        let message =
            format!("there is no terminal to ask on; to {verb} without being asked, use -y");
        return Err(CommandFailure::usage(message).advise(plans.join("\n")));
    }
    for plan in plans {
        console.note(plan);
    }
    Ok(())
}
