//! Systemd: what it is told, and the unit that it runs the supervisor by.

use std::ffi::OsStr;
use std::path::Path;

use sd_notify::NotifyState;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Tells systemd how the supervisor is. Does nothing where systemd does not ask.
#[derive(Debug)]
pub(crate) struct Notifier {
    watchdog: Option<Interval>,
}

impl Notifier {
    pub(crate) fn start() -> Self {
        let watchdog = sd_notify::watchdog_enabled().map(|within| {
            let period = within / 2;
            let mut interval = interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Self { watchdog }
    }

    pub(crate) fn ready() {
        tell(NotifyState::Ready);
    }

    pub(crate) fn stopping() {
        tell(NotifyState::Stopping);
    }

    pub(crate) fn watchdog() {
        tell(NotifyState::Watchdog);
    }

    /// Waits until systemd wants to hear something. Never returns if it does not.
    pub(crate) async fn watchdog_due(&mut self) {
        match &mut self.watchdog {
            Some(interval) => {
                interval.tick().await;
            }
            None => std::future::pending().await,
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}

/// Whose systemd runs the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitScope {
    /// That of the user.
    User,
    /// That of the system; it runs the supervisor as this user.
    System {
        /// The number of the user.
        uid: u32,
    },
}

/// Returns the text of a unit.
///
/// `KillMode=process`: the supervisor ends its children itself, and what outlives them on purpose,
/// such as sandboxes, is not its own.
pub fn unit_text(program: &Path, arguments: &[&str], home: &Path, scope: UnitScope) -> String {
    let mut command = vec![escaped(program.as_os_str(), true)];
    command.extend(arguments.iter().map(|word| escaped(OsStr::new(word), true)));
    let home = home.as_os_str();
    let variable = escaped(
        &[OsStr::new("VESTAL_HOME="), home].into_iter().collect::<std::ffi::OsString>(),
        false,
    );
    let (user, target) = match scope {
        UnitScope::User => (String::new(), "default.target"),
        UnitScope::System { uid } => (format!("User={uid}\n"), "multi-user.target"),
    };
    format!(
        "[Unit]\n\
         Description=Vestal supervisor\n\
         After=network.target\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={}\n\
         Environment={variable}\n\
         {user}\
         KillMode=process\n\
         Restart=always\n\
         RestartSec=1\n\
         TimeoutStopSec=120\n\
         WatchdogSec=60\n\
         \n\
         [Install]\n\
         WantedBy={target}\n",
        command.join(" ")
    )
}

/// Quotes a word for a unit. `%` is special everywhere, `$` in commands.
fn escaped(word: &OsStr, in_command: bool) -> String {
    let mut quoted = String::from("\"");
    for c in word.to_string_lossy().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '$' if in_command => quoted.push_str("$$"),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_program_home_and_user_whatever_is_in_them() {
        let text = unit_text(
            Path::new("/opt/a b/vestal"),
            &["supervise"],
            Path::new("/srv/100%/$x\"y"),
            UnitScope::System { uid: 7 },
        );
        assert!(text.contains("\nExecStart=\"/opt/a b/vestal\" \"supervise\"\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"VESTAL_HOME=/srv/100%%/$x\\\"y\"\n"), "{text}");
        assert!(text.contains("\nUser=7\nKillMode=process\n"), "{text}");
        assert!(text.ends_with("WantedBy=multi-user.target\n"), "{text}");
        let text = unit_text(Path::new("/v"), &[], Path::new("/h"), UnitScope::User);
        assert!(text.ends_with("WantedBy=default.target\n") && !text.contains("User="), "{text}");
    }
}
