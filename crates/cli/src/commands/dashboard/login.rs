//! Logging in: links, the password, and the end of all sessions.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use vestal_api::dashboard::DashboardLinkView;
use vestal_config::{Environment, Home};
use vestal_dashboard::gate::Right;
use vestal_dashboard::{AuthStore, DashboardState, MIN_PASSWORD, find_instance, store_path};

use super::LinkReader;
use crate::console::Console;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// How long the page that leads a browser to the link is kept.
const OPEN_WITHIN: Duration = Duration::from_mins(1);

pub(super) async fn new_link(
    root: &Home,
    state: &DashboardState,
    right: Right,
) -> Result<DashboardLinkView, CommandFailure> {
    check_place(state)?;
    let store = open_store(root).await?;
    let link = store.create_link(right, Timestamp::now()).await;
    store.close().await;
    let link = link.map_err(|error| CommandFailure::new(error.to_string()))?;
    Ok(DashboardLinkView {
        url: link.url(&state.url),
        right: right.as_str().to_owned(),
        expires_at: link.expires_at.to_string(),
    })
}

/// Refuses to make a link while another process listens where a browser would take it.
fn check_place(state: &DashboardState) -> Result<(), CommandFailure> {
    let (host, own) = (state.address.ip().to_string(), [state.process.pid]);
    let foreign = vestal_gateway::foreign_listeners(&host, state.address.port(), &own);
    let Some(listener) = foreign.first() else { return Ok(()) };
    let who = listener.holder.as_ref();
    let who = who.map(|holder| format!("{:?} (pid {})", holder.name, holder.pid));
    let who = who.unwrap_or_else(|| "a process of another user".to_owned());
    Err(CommandFailure::new(format!(
        "{who} listens at {}, where a browser may look for the dashboard: a link would let it in",
        listener.address
    ))
    .advise("vestal gateway status --dashboard says which sandbox it is in; end it first")
    .with_exit(Exit::No))
}

async fn open_store(root: &Home) -> Result<AuthStore, CommandFailure> {
    let dir = root.root();
    std::fs::create_dir_all(dir)
        .map_err(|error| CommandFailure::io(&format!("make {}", dir.display()), &error))?;
    let store = AuthStore::open(&store_path(dir)).await;
    store.map_err(|error| CommandFailure::new(error.to_string()))
}

/// Prints a link, and has a browser open it.
pub(super) fn show_link(
    context: &Context,
    root: &Home,
    url: &str,
    caller: LinkReader,
) -> Result<Option<OpenPage>, CommandFailure> {
    context.console.print(url)?;
    context.console.note(
        "the link lets one browser in, once, within ten minutes; more: vestal dashboard link",
    );
    if caller != LinkReader::Browser {
        return Ok(None);
    }
    match OpenPage::open(&root.run_dir(), url) {
        Ok(page) => Ok(Some(page)),
        Err(error) => {
            context.console.note(&format!("no browser was opened: {error}"));
            Ok(None)
        }
    }
}

pub(super) async fn link(
    context: &Context,
    root: &Home,
    viewer: bool,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let Some(state) = find_instance(&root.run_dir()) else {
        return Err(not_running());
    };
    let right = if viewer { Right::Viewer } else { Right::Operator };
    let link = new_link(root, &state, right).await?;
    if json {
        context.console.print_json(&link)?;
    } else {
        context.console.print(&link.url)?;
        context.console.note("it lets one browser in, once, within ten minutes");
    }
    Ok(Exit::Success)
}

fn not_running() -> CommandFailure {
    CommandFailure::new("no dashboard of this home runs")
        .advise("to start one: vestal dashboard")
        .with_exit(Exit::No)
}

/// Reports whether there is a screen to open a browser on: not over ssh, where it would be another
/// machine's.
pub(super) fn has_browser(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.non_empty(name).is_some();
    std::io::stdout().is_terminal()
        && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
        && !is_set("SSH_CONNECTION")
}

/// A file that leads a browser to a link. Everybody on the machine can read the arguments of a
/// program, so the link itself is not among them.
#[derive(Debug)]
pub(super) struct OpenPage {
    path: PathBuf,
}

impl OpenPage {
    fn open(run: &Path, url: &str) -> std::io::Result<Self> {
        let path = run.join("dashboard-open.html");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let page = Self { path };
        // A link is made of letters that mean nothing in a page.
        write!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">")?;
        let browser = tokio::process::Command::new("xdg-open")
            .arg(&page.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let path = page.path.clone();
        tokio::spawn(async move {
            let mut browser = browser;
            browser.wait().await.ok();
            tokio::time::sleep(OPEN_WITHIN).await;
            std::fs::remove_file(path).ok();
        });
        Ok(page)
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        // It may have been removed already.
        std::fs::remove_file(&self.path).ok();
    }
}

pub(super) async fn password(
    context: &Context,
    root: &Home,
    remove: bool,
) -> Result<Exit, CommandFailure> {
    let store = open_store(root).await?;
    let failed = |error: vestal_dashboard::PasswordError| {
        CommandFailure::new(error.to_string()).with_exit(Exit::No)
    };
    let done = if remove {
        store.remove_password(Timestamp::now()).await.map_err(failed)
    } else {
        match read_password(context.console) {
            Ok(password) => store.set_password(&password, Timestamp::now()).await.map_err(failed),
            Err(failure) => Err(failure),
        }
    };
    store.close().await;
    done?;
    context.console.note(if remove {
        "the password was removed; its sessions have ended"
    } else {
        "the password was set; sessions of the previous one have ended"
    });
    Ok(Exit::Success)
}

/// Asks for a password twice on a terminal; elsewhere it is the first line of standard input.
fn read_password(console: Console) -> Result<String, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        let read = std::io::stdin().take(4096).read_to_string(&mut text);
        read.map_err(|error| CommandFailure::io("read the password", &error))?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    let nothing =
        || CommandFailure::new("no password was given; nothing was changed").with_exit(Exit::No);
    let question = format!("Password, at least {MIN_PASSWORD} characters: ");
    let first = console.ask_secret(&question).ok_or_else(nothing)?;
    let second = console.ask_secret("Once more: ").ok_or_else(nothing)?;
    if first != second {
        let message = "the two are not the same; nothing was changed";
        return Err(CommandFailure::new(message).with_exit(Exit::No));
    }
    Ok(first)
}

pub(super) async fn logout(context: &Context, root: &Home) -> Result<Exit, CommandFailure> {
    let store = open_store(root).await?;
    let ended = store.end_all().await;
    store.close().await;
    let ended = ended.map_err(|error| CommandFailure::new(error.to_string()))?;
    let sessions =
        if ended == 1 { "1 session has".to_owned() } else { format!("{ended} sessions have") };
    context.console.note(&format!("{sessions} ended, and no link counts any more"));
    Ok(Exit::Success)
}
