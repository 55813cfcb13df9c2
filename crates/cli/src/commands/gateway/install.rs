//! `vestal gateway install` and `uninstall`: one unit of systemd for the supervisor of a home.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use vestal_api::UnitView;
use vestal_config::Environment;
use vestal_supervisor::{ControlError, Manager, SupervisorRequest, UnitScope, ask, unit_text};

use super::lifecycle::refuse_inside;
use super::orders::no_answer;
use super::slots::HomeSlots;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const INSTALL_HELP: &str = "\
Writes one unit of systemd that runs `vestal supervise` for this home, enables it and starts it. As a
user's service it runs while you are logged in; `loginctl enable-linger` keeps it running after that.

Examples:
  vestal gateway install
  sudo VESTAL_HOME=/srv/vestal vestal gateway install --system";

/// Have systemd run the supervisor of this home.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
pub(super) struct InstallArgs {
    /// As a service of the system, not of the user.
    #[arg(long)]
    system: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

const UNINSTALL_HELP: &str = "\
Ends the supervisor with its gateways and removes the unit. Which gateways were running stays on
record.

Example:
  vestal gateway uninstall";

/// Remove the unit of systemd for this home.
#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_HELP)]
pub(super) struct UninstallArgs {
    /// The service of the system, not of the user.
    #[arg(long)]
    system: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// The unit of a home, of its user or of the system.
#[derive(Debug)]
pub(super) struct SystemdUnit {
    name: String,
    path: PathBuf,
    system: bool,
}

pub(super) async fn install(context: &Context, args: &InstallArgs) -> Result<Exit, CommandFailure> {
    let slots = HomeSlots::new(context)?;
    let unit = SystemdUnit::of(context, &slots, args.system)?;
    // Its lock would keep the service from starting.
    let list = SupervisorRequest::List { slots: Some(Vec::new()) };
    match ask(&slots.run_dir(), &list, ANSWER_WITHIN).await {
        Ok(answer) if answer.holder.manager != Manager::Systemd => {
            let pid = answer.holder.process.pid;
            return Err(CommandFailure::new(format!(
                "a supervisor runs for this home (pid {pid})"
            ))
            .advise("to end it with its gateways: vestal supervise --stop")
            .with_exit(Exit::No));
        }
        Ok(_) | Err(ControlError::NotRunning(_)) => {}
        Err(error) => return Err(no_answer(&error)),
    }
    let root = slots.root().root();
    std::fs::create_dir_all(root)
        .map_err(|error| CommandFailure::io(&format!("make {}", root.display()), &error))?;
    let scope = if args.system {
        let owner =
            root.metadata().map_err(|error| CommandFailure::io("look at the home", &error))?;
        UnitScope::System { uid: owner.uid() }
    } else {
        UnitScope::User
    };
    unit.systemctl(&["--version"])?;
    let text = unit_text(slots.program(), &["supervise"], root, scope);
    let before = std::fs::read(&unit.path).ok();
    let write = || {
        std::fs::create_dir_all(unit.path.parent().unwrap_or(Path::new("/")))?;
        std::fs::write(&unit.path, text)
    };
    write().map_err(|error| {
        let failure = CommandFailure::io(&format!("write {}", unit.path.display()), &error);
        if args.system && error.kind() == std::io::ErrorKind::PermissionDenied {
            return failure.advise(format!(
                "units of the system are root's: sudo VESTAL_HOME={} {} gateway install --system",
                root.display(),
                slots.program().display()
            ));
        }
        failure
    })?;
    let enabled = unit
        .systemctl(&["daemon-reload"])
        .and_then(|()| unit.systemctl(&["enable", "--now", &unit.name]));
    if let Err(failure) = enabled {
        unit.undo(before);
        return Err(failure
            .advise("nothing was installed; without systemd: vestal gateway start, or vestal supervise in the foreground"));
    }
    if !args.json {
        context.console.print(&format!("installed {} as {}", unit.name, unit.path.display()))?;
        context.console.note(&match scope {
            UnitScope::System { uid } if uid != rustix::process::geteuid().as_raw() => format!(
                "to start a gateway, as user {uid} with VESTAL_HOME={}: vestal gateway start",
                root.display()
            ),
            UnitScope::System { .. } | UnitScope::User => {
                "to start a gateway: vestal gateway start".to_owned()
            }
        });
    }
    unit.print_view(context, args.json)
}

pub(super) fn uninstall(context: &Context, args: &UninstallArgs) -> Result<Exit, CommandFailure> {
    refuse_inside(context)?;
    let slots = HomeSlots::new(context)?;
    let unit = SystemdUnit::of(context, &slots, args.system)?;
    if !unit.path.exists() {
        return Err(CommandFailure::new(format!("{} is not installed", unit.path.display()))
            .with_exit(Exit::No));
    }
    let disabled = unit.systemctl(&["disable", "--now", &unit.name]);
    if disabled.is_err() && unit.systemctl(&["is-active", "--quiet", &unit.name]).is_ok() {
        // It would run on with nobody who knows it.
        return disabled.map(|()| Exit::Success);
    }
    unit.remove_files()
        .map_err(|error| CommandFailure::io(&format!("remove {}", unit.path.display()), &error))?;
    if disabled.is_err() {
        context.console.note("systemd did not answer, so only the unit's files were removed");
    } else {
        unit.systemctl(&["daemon-reload"])?;
    }
    if !args.json {
        context.console.print(&format!("removed {}", unit.path.display()))?;
    }
    unit.print_view(context, args.json)
}

impl SystemdUnit {
    fn of(context: &Context, slots: &HomeSlots, system: bool) -> Result<Self, CommandFailure> {
        let environment = context.environment();
        let root = slots.root().root();
        let user_home = environment.user_home();
        let is_usual = user_home.as_ref().is_some_and(|home| home.join(".vestal") == root);
        let name = if is_usual && !system {
            "vestal.service".to_owned()
        } else {
            format!("vestal-{:08x}.service", hash(root))
        };
        let dir = if system {
            system_units(environment)
        } else {
            let config = environment.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
            let config = config.filter(|path| path.is_absolute());
            let config = config.or_else(|| user_home.map(|home| home.join(".config")));
            config.ok_or_else(|| CommandFailure::new("HOME is not set"))?.join("systemd/user")
        };
        Ok(Self { path: dir.join(&name), name, system })
    }

    /// Returns the unit that is installed for a home, that of the user before that of the system.
    pub(super) fn installed(context: &Context, slots: &HomeSlots) -> Option<Self> {
        let units = [false, true].map(|system| Self::of(context, slots, system));
        // Where a user has no place for units, none is installed there.
        units.into_iter().flatten().find(|unit| unit.path.exists())
    }

    /// Removes the unit, and the links by which it is enabled.
    fn remove_files(&self) -> std::io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        for entry in std::fs::read_dir(dir)?.flatten() {
            let link = entry.path().join(&self.name);
            let is_wants = entry.path().extension().is_some_and(|kind| kind == "wants");
            if is_wants && std::fs::symlink_metadata(&link).is_ok_and(|found| found.is_symlink()) {
                std::fs::remove_file(link)?;
            }
        }
        std::fs::remove_file(&self.path)
    }

    /// Puts back what was there before an installation that failed.
    fn undo(&self, before: Option<Vec<u8>>) {
        let undone = match before {
            Some(text) => std::fs::write(&self.path, text),
            None => self.remove_files(),
        };
        if let Err(error) = undone {
            tracing::warn!(%error, unit = %self.path.display(), "the unit could not be removed again");
        }
        // What it has read of it by now it forgets, if it runs at all.
        if let Err(error) = self.systemctl(&["daemon-reload"]) {
            tracing::debug!(error = ?error, "systemd did not forget the unit");
        }
    }

    /// Starts it; returns when its supervisor is ready.
    pub(super) async fn start(self, context: &Context) -> Result<(), CommandFailure> {
        let (command, is_system) = (self.command("start"), self.system);
        let starting = async {
            let started = tokio::task::spawn_blocking(move || {
                self.systemctl(&["--no-ask-password", "start", &self.name])
            });
            started.await.map_err(|error| CommandFailure::new(error.to_string()))?
        };
        let started = context.console.while_waiting("starting the service", starting).await;
        started.map_err(|failure| {
            failure.advise(format!(
                "the supervisor of this home is a service; to start it: {command}. Where \
                     systemd does not run, remove it first: vestal gateway uninstall{}",
                if is_system { " --system" } else { "" }
            ))
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the command by which a person does something with it.
    pub(super) fn command(&self, verb: &str) -> String {
        let whose = if self.system { "" } else { "--user " };
        format!("systemctl {whose}{verb} {}", self.name)
    }

    pub(super) fn view(&self) -> UnitView {
        UnitView {
            unit: self.name.clone(),
            path: self.path.display().to_string(),
            start: self.command("start"),
        }
    }

    fn systemctl(&self, arguments: &[&str]) -> Result<(), CommandFailure> {
        let mut command = Command::new("systemctl");
        if !self.system {
            command.arg("--user");
        }
        command.args(arguments);
        let words = arguments.join(" ");
        let output = command.output().map_err(|error| {
            CommandFailure::io("run systemctl", &error)
                .advise("without systemd, `vestal gateway start` starts a supervisor, and `vestal supervise` runs one in the foreground")
        })?;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(CommandFailure::new(format!("systemctl {words} failed: {printed}")))
    }

    fn print_view(&self, context: &Context, json: bool) -> Result<Exit, CommandFailure> {
        if json {
            context.console.print_json(&self.view())?;
        }
        Ok(Exit::Success)
    }
}

/// Returns the directory of the system's own units, or the first one that systemd is configured to look in.
fn system_units(environment: &Environment) -> PathBuf {
    let configured = environment.non_empty("SYSTEMD_UNIT_PATH");
    let first = configured.and_then(|dirs| std::env::split_paths(dirs).next());
    first.filter(|dir| dir.is_absolute()).unwrap_or_else(|| "/etc/systemd/system".into())
}

/// Distinguishes homes in the names of units (FNV-1a).
fn hash(root: &Path) -> u32 {
    root.as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
