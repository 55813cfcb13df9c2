//! Enforcing limits with systemd scopes, control groups or the kernel's process
//! count.

use std::path::PathBuf;

use super::cgroups::{self, Controller, Hierarchies, LimitRequest};
use crate::backend::BackendError;
use crate::backends::own_system::{LimitKind, ResourceLimits};
use crate::backends::scope::SystemdScope;

/// What enforces limits on this machine.
#[derive(Debug)]
pub(in crate::backends) enum LimitMechanism {
    /// systemd scopes, with the controllers that the manager has.
    Systemd(Vec<String>),
    /// Control groups below the one of this process.
    Groups(Hierarchies),
}

/// The outcome of enforcing limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::backends) struct Enforced {
    /// Directories of the control groups for the first process.
    pub(in crate::backends) dirs: Vec<PathBuf>,
    /// Properties of the systemd scope.
    pub(in crate::backends) properties: Vec<String>,
    /// Most processes of one user, where no controller counts them.
    pub(in crate::backends) max_processes: Option<u64>,
    /// Keys of default limits that cannot be enforced.
    pub(in crate::backends) unenforced: Vec<String>,
}

impl LimitMechanism {
    /// Returns the mechanism of this machine.
    pub(in crate::backends) fn detect(scope: Option<&SystemdScope>, uid: u32) -> Self {
        match scope {
            Some(scope) => Self::Systemd(scope.controllers(uid)),
            None => Self::Groups(Hierarchies::of_this_process()),
        }
    }

    /// Refuses required limits that this machine certainly cannot enforce.
    pub(in crate::backends) fn vet(&self, limits: &ResourceLimits) -> Result<(), BackendError> {
        for kind in LimitKind::ALL {
            if limits.requires(kind) && !self.can_enforce(kind) {
                return Err(unenforceable(kind, self.reason_against(kind)));
            }
        }
        Ok(())
    }

    /// Returns the names of the controllers that can be limited here, and of those
    /// that cannot.
    pub(super) fn controllers(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let controllers = [LimitKind::Cpu, LimitKind::Memory];
        let (held, lost): (Vec<_>, Vec<_>) =
            controllers.into_iter().partition(|kind| self.can_enforce(*kind));
        let names = |kinds: Vec<LimitKind>| {
            kinds.into_iter().filter_map(controller).map(Controller::name).collect()
        };
        (names(held), names(lost))
    }

    fn can_enforce(&self, kind: LimitKind) -> bool {
        match (kind, controller(kind)) {
            // Without a controller, the kernel's count per user is used.
            (LimitKind::Pids, _) => true,
            (_, None) => false,
            (_, Some(controller)) => match self {
                Self::Systemd(names) => names.iter().any(|name| name == controller.name()),
                Self::Groups(hierarchies) => hierarchies.may_limit(controller),
            },
        }
    }

    /// Returns the control groups that an instance will have.
    pub(in crate::backends) fn planned_groups(
        &self,
        limits: &ResourceLimits,
        instance: &str,
    ) -> Vec<PathBuf> {
        match self {
            Self::Systemd(_) => Vec::new(),
            Self::Groups(hierarchies) => {
                cgroups::planned_dirs(hierarchies, instance, &limit_requests(limits))
            }
        }
    }

    /// Sets up the limits of an instance that is about to start.
    pub(in crate::backends) fn enforce(
        &self,
        limits: &ResourceLimits,
        instance: &str,
    ) -> Result<Enforced, BackendError> {
        let (mut enforced, refused) = match self {
            Self::Systemd(names) => scope_properties(limits, names),
            Self::Groups(hierarchies) => {
                let groups = cgroups::make(hierarchies, instance, &limit_requests(limits));
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
                let reason =
                    reason.map_or_else(|| self.reason_against(kind), |(_, reason)| reason.clone());
                // The instance is not made, so its groups go too.
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

    fn reason_against(&self, kind: LimitKind) -> String {
        match (kind, self) {
            (LimitKind::Disk, _) => {
                "the sandbox keeps its files in directories, which have no quota".to_owned()
            }
            (_, Self::Systemd(_)) => {
                "the systemd manager of this session does not have that controller".to_owned()
            }
            (_, Self::Groups(_)) => "this process cannot make control groups for it".to_owned(),
        }
    }
}

/// Returns the controller of a limit, if there is one.
fn controller(kind: LimitKind) -> Option<Controller> {
    match kind {
        LimitKind::Cpu => Some(Controller::Cpu),
        LimitKind::Memory => Some(Controller::Memory),
        LimitKind::Pids => Some(Controller::Pids),
        LimitKind::Disk => None,
    }
}

/// Returns the limits that controllers can set, in the kernel's units.
fn limit_requests(limits: &ResourceLimits) -> Vec<LimitRequest> {
    let limit_requests = [
        (Controller::Cpu, limits.cpu.value),
        (Controller::Memory, limits.memory_mb.value.saturating_mul(1 << 20)),
        (Controller::Pids, limits.pids.value),
    ];
    limit_requests.into_iter().filter(|(_, value)| *value != 0).collect()
}

fn scope_properties(
    limits: &ResourceLimits,
    names: &[String],
) -> (Enforced, Vec<(Controller, String)>) {
    let mut enforced = Enforced::default();
    let mut refused = Vec::new();
    for (controller, value) in limit_requests(limits) {
        if !names.iter().any(|name| name == controller.name()) {
            let reason = "the systemd manager of this session does not have that controller";
            refused.push((controller, reason.to_owned()));
            continue;
        }
        enforced.properties.push(match controller {
            Controller::Cpu if value % 10 == 0 => format!("CPUQuota={}%", value / 10),
            // Older versions of systemd accept whole percents only.
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
        LimitKind::Disk => format!("set {key} to 0 for no limit, or use the backend docker"),
        LimitKind::Cpu | LimitKind::Memory | LimitKind::Pids => format!(
            "set {key} to 0 for no limit, run vestal as root, or have systemd delegate the \
             controller to your session"
        ),
    };
    BackendError::Unenforceable { key, reason, advice }
}

#[cfg(test)]
#[path = "enforce_tests.rs"]
mod tests;
