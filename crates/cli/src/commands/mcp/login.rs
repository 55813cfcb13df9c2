//! `vestal mcp login` and `logout`.

use std::io::BufRead as _;

use clap::Args;
use tokio::sync::oneshot;
use vestal_mcp::{LoginError, PendingLogin, forget_login};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const LOGIN_HELP: &str = "\
For servers with a url that ask for OAuth. The address that is printed is opened in a browser; when
the login is done, the browser comes back to a port of this machine. Where the browser runs on another
machine it finds nothing there: paste the address it was sent to into this terminal. The tokens are kept
in mcp-tokens/ of the profile's home, readable by you only, renewed by themselves, and sent to that
server only.

Example:
  vestal mcp login work";

/// Log in at a server that asks for it.
#[derive(Debug, Args)]
#[command(after_help = LOGIN_HELP)]
pub(super) struct LoginArgs {
    /// Name of the server.
    name: String,
}

pub(super) async fn login(context: &Context, args: &LoginArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let server = super::server(&settings, &name)?;
    let console = context.console;
    let what = format!("asking {name} where to log in");
    let pending = console.while_waiting(&what, PendingLogin::begin(&settings, &name, &server));
    let pending = pending.await.map_err(|error| refused(&error))?;
    console.note("open this address in a browser:");
    console.print(pending.url())?;
    console.note(
        "waiting for the browser to come back. If it runs on another machine, paste the address that \
         it was sent to (http://127.0.0.1:…) here:",
    );
    Box::pin(pending.finish(pasted())).await.map_err(|error| refused(&error))?;
    console.note(&format!("logged in; to try it: vestal mcp test {name}"));
    Ok(Exit::Success)
}

/// Returns the first line that is typed; none, if nothing can be typed.
async fn pasted() -> Option<String> {
    let (send, receive) = oneshot::channel();
    // A thread of its own, which the end of the program does not wait for.
    let reading = std::thread::Builder::new().name("pasted".to_owned()).spawn(move || {
        let line = std::io::stdin().lock().lines().find_map(|line| match line {
            Ok(line) if line.trim().is_empty() => None,
            line => Some(line),
        });
        if let Some(Ok(line)) = line {
            // The browser may have been faster.
            drop(send.send(line));
        }
    });
    reading.ok()?;
    receive.await.ok()
}

fn refused(error: &LoginError) -> CommandFailure {
    CommandFailure::new(error.to_string()).with_exit(Exit::No)
}

/// Forget the tokens of a server.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  vestal mcp logout work")]
pub(super) struct LogoutArgs {
    /// Name of the server.
    name: String,
}

pub(super) fn logout(context: &Context, args: &LogoutArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    // It need not be in the settings any more.
    let name = super::named(&args.name)?;
    let had_tokens = forget_login(&settings, &name).map_err(|error| refused(&error))?;
    if !had_tokens {
        let failure = CommandFailure::new(format!("nobody is logged in at {name}"));
        return Err(failure.with_exit(Exit::No));
    }
    context.console.note(&format!(
        "the tokens of {name} are removed; who has copies of them can use them until they run out"
    ));
    Ok(Exit::Success)
}
