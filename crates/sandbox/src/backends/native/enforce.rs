//! Limits, by whatever this machine has for them.

use std::path::PathBuf;

use super::cgroups::{self, Controller, Hierarchies, Wanted};
use crate::backend::BackendError;
use crate::backends::limits::{LimitKind, Limits};
use crate::backends::scope::Scope;

/// What limits processes on this machine.
#[derive(Debug)]
pub(super) enum Means {
    /// systemd, for scopes, with these controllers.
    Systemd(Vec<String>),
    /// Control groups below this process's own.
    Groups(Hierarchies),
}

/// Limits that hold, and those that do not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Enforced {
    /// Directories of control groups that the first process is put into.
    pub(super) dirs: Vec<PathBuf>,
    /// Properties of a systemd scope that it is started in.
    pub(super) properties: Vec<String>,
    /// Processes of one user, where nothing else counts them.
    pub(super) max_processes: Option<u64>,
    /// Keys of limits that are left out.
    pub(super) unenforced: Vec<String>,
}

impl Means {
    /// Returns those of this machine.
    pub(super) fn of_this_machine(scope: Option<&Scope>, uid: u32) -> Self {
        match scope {
            Some(scope) => Self::Systemd(scope.controllers(uid)),
            None => Self::Groups(Hierarchies::of_this_process()),
        }
    }

    /// Checks what of the limits can be checked without making anything.
    pub(super) fn vet(&self, limits: &Limits) -> Result<(), BackendError> {
        for kind in LimitKind::ALL {
            if limits.requires(kind) && !self.is_able(kind) {
                return Err(unenforceable(kind, self.lack(kind)));
            }
        }
        Ok(())
    }

    /// Returns the names of what processes can be limited in here, and of what
    /// not.
    pub(super) fn abilities(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let controllers = [LimitKind::Cpu, LimitKind::Memory];
        let (held, lost): (Vec<_>, Vec<_>) =
            controllers.into_iter().partition(|kind| self.is_able(*kind));
        let names = |kinds: Vec<LimitKind>| {
            kinds.into_iter().filter_map(controller).map(Controller::name).collect()
        };
        (names(held), names(lost))
    }

    fn is_able(&self, kind: LimitKind) -> bool {
        match (kind, controller(kind)) {
            // The kernel counts the processes of a sandbox's users anyway.
            (LimitKind::Pids, _) => true,
            (_, None) => false,
            (_, Some(controller)) => match self {
                Self::Systemd(names) => names.iter().any(|name| name == controller.name()),
                Self::Groups(hierarchies) => hierarchies.may_limit(controller),
            },
        }
    }

    /// Returns where control groups of an instance will be.
    pub(super) fn places(&self, limits: &Limits, instance: &str) -> Vec<PathBuf> {
        match self {
            Self::Systemd(_) => Vec::new(),
            Self::Groups(hierarchies) => cgroups::places(hierarchies, instance, &wanted(limits)),
        }
    }

    /// Makes the limits hold for an instance that is about to be started.
    pub(super) fn enforce(
        &self,
        limits: &Limits,
        instance: &str,
    ) -> Result<Enforced, BackendError> {
        let (mut enforced, refused) = match self {
            Self::Systemd(names) => by_systemd(limits, names),
            Self::Groups(hierarchies) => {
                let groups = cgroups::make(hierarchies, instance, &wanted(limits));
                (Enforced { dirs: groups.dirs, ..Enforced::default() }, groups.refused)
            }
        };
        for kind in LimitKind::ALL {
            let limit = limits.get(kind);
            if limit.value == 0 {
                continue;
            }
            let reason = match controller(kind) {
                Some(controller) => refused.iter().find(|(refused, _)| *refused == controller),
                None => None,
            };
            let holds = controller(kind).is_some() && reason.is_none();
            if holds {
                continue;
            }
            if kind == LimitKind::Pids {
                enforced.max_processes = Some(limit.value);
            } else if limits.requires(kind) {
                let reason = reason.map_or_else(|| self.lack(kind), |(_, reason)| reason.clone());
                // No group is left of an instance that is not made.
                for dir in &enforced.dirs {
                    std::fs::remove_dir(dir).ok();
                }
                return Err(unenforceable(kind, reason));
            } else {
                enforced.unenforced.push(kind.key().to_owned());
            }
        }
        Ok(enforced)
    }

    fn lack(&self, kind: LimitKind) -> String {
        match (kind, self) {
            (LimitKind::Disk, _) => {
                "native sandboxes keep their files in directories, which have no quota".to_owned()
            }
            (_, Self::Systemd(_)) => {
                "the systemd manager that runs this session was not given that controller"
                    .to_owned()
            }
            (_, Self::Groups(_)) => {
                "this process may make no control group for it below its own".to_owned()
            }
        }
    }
}

/// Returns what limits something, where anything does.
fn controller(kind: LimitKind) -> Option<Controller> {
    match kind {
        LimitKind::Cpu => Some(Controller::Cpu),
        LimitKind::Memory => Some(Controller::Memory),
        LimitKind::Pids => Some(Controller::Pids),
        LimitKind::Disk => None,
    }
}

/// Returns the limits that control groups can set, in their own units.
fn wanted(limits: &Limits) -> Vec<Wanted> {
    let wanted = [
        (Controller::Cpu, limits.cpu.value),
        (Controller::Memory, limits.memory_mb.value.saturating_mul(1 << 20)),
        (Controller::Pids, limits.pids.value),
    ];
    wanted.into_iter().filter(|(_, value)| *value != 0).collect()
}

fn by_systemd(limits: &Limits, names: &[String]) -> (Enforced, Vec<(Controller, String)>) {
    let mut enforced = Enforced::default();
    let mut refused = Vec::new();
    for (controller, value) in wanted(limits) {
        if !names.iter().any(|name| name == controller.name()) {
            let reason = "the systemd manager that runs this session was not given that controller";
            refused.push((controller, reason.to_owned()));
            continue;
        }
        enforced.properties.push(match controller {
            Controller::Cpu if value % 10 == 0 => format!("CPUQuota={}%", value / 10),
            // Older ones take whole percents only.
            Controller::Cpu => format!("CPUQuota={}.{}%", value / 10, value % 10),
            Controller::Memory => format!("MemoryMax={value}"),
            Controller::Pids => format!("TasksMax={value}"),
        });
    }
    (enforced, refused)
}

fn unenforceable(kind: LimitKind, reason: String) -> BackendError {
    let key = kind.key();
    let advice = match kind {
        LimitKind::Disk => format!("set {key} to 0 to go without, or use the backend docker"),
        LimitKind::Cpu | LimitKind::Memory | LimitKind::Pids => format!(
            "set {key} to 0 to go without, run vestal as root, or have systemd delegate the \
             controller to your session"
        ),
    };
    BackendError::Unenforceable { key, reason, advice }
}

#[cfg(test)]
#[path = "enforce_tests.rs"]
mod tests;
