//! Systemd: notifications to it, and the unit that it runs the supervisor by.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// How often systemd is asked for more time where it wants no other sign of life.
const ASK_EVERY: Duration = Duration::from_secs(20);
/// The time that is asked for, in microseconds; several times as long as the pauses in between.
const MORE_TIME: u32 = 90_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It begins or ends, which takes as long as the children of this or an earlier supervisor take
    /// to end: more than the unit can know.
    Changing,
    /// It is ready.
    Steady,
}

/// Tells systemd how the supervisor is. Does nothing where systemd does not ask.
///
/// The signs of life come from a task of their own, so that a child that takes long to end does not
/// look like a supervisor that hangs.
#[derive(Debug)]
pub(crate) struct Notifier {
    phase: watch::Sender<Phase>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub(crate) fn start() -> Self {
        let (phase, seen) = watch::channel(Phase::Changing);
        let task = tokio::spawn(notify_watchdog(sd_notify::watchdog_enabled(), seen));
        Self { phase, task }
    }

    pub(crate) fn ready(&self) {
        self.phase.send_replace(Phase::Steady);
        notify_systemd(NotifyState::Ready);
    }

    pub(crate) fn stopping(&self) {
        notify_systemd(NotifyState::Stopping);
        self.phase.send_replace(Phase::Changing);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn notify_watchdog(watchdog: Option<Duration>, mut phase: watch::Receiver<Phase>) {
    let mut ticks = interval(watchdog.map_or(ASK_EVERY, |within| within / 2));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = *phase.borrow_and_update();
        tokio::select! {
            _ = ticks.tick(), if watchdog.is_some() || now == Phase::Changing => {}
            changed = phase.changed() => match changed {
                Ok(()) => ticks.reset(),
                Err(_) => return,
            },
        }
        if watchdog.is_some() {
            notify_systemd(NotifyState::Watchdog);
        }
        if *phase.borrow() == Phase::Changing {
            notify_systemd(NotifyState::ExtendTimeoutUsec(MORE_TIME));
        }
    }
}

fn notify_systemd(state: NotifyState<'_>) {
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
/// such as sandboxes, is not its own. `Restart=on-failure`: one that an operator ended stays down
/// until it is started; one that was killed or hangs comes back, however often. The supervisor asks
/// for more time than `Timeout…Sec` while children end. `OOMPolicy=continue`: a command in a sandbox
/// that takes all the memory is in the same cgroup, and must not end every gateway with it.
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
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={}\n\
         Environment={variable}\n\
         {user}\
         KillMode=process\n\
         OOMPolicy=continue\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         TimeoutStartSec=120\n\
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
        assert!(text.contains("\nUser=7\nKillMode=process\nOOMPolicy=continue\n"), "{text}");
        assert!(text.ends_with("WantedBy=multi-user.target\n"), "{text}");
        let text = unit_text(Path::new("/v"), &[], Path::new("/h"), UnitScope::User);
        assert!(text.ends_with("WantedBy=default.target\n") && !text.contains("User="), "{text}");
    }
}
