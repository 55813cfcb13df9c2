//! Limits: which are set, which can be enforced, which the engine applied.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};

use super::blueprint::Blueprint;
use crate::backend::BackendError;
use crate::backends::docker::api::EngineInfo;
use crate::backends::docker::settings::DockerSettings;
use crate::backends::own_system::LimitKind;

impl LimitKind {
    /// Returns the error for a required limit that cannot be enforced.
    pub(in crate::backends::docker) fn unenforceable(self, reason: &str) -> BackendError {
        BackendError::Unenforceable {
            key: self.key(),
            reason: reason.to_owned(),
            advice: self.advice(),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Cpu | Self::Memory | Self::Pids => "the container engine has no cgroup for it",
            Self::Disk => "the container engine's storage has no quotas",
        }
    }

    fn advice(self) -> String {
        let key = self.key();
        match self {
            Self::Cpu | Self::Memory | Self::Pids => format!(
                "set {key} to 0 to go without, or delegate that cgroup controller to the engine's \
                 user (`vestal doctor` shows what the engine can limit)"
            ),
            Self::Disk => format!(
                "set {key} to 0 to go without, or keep the engine's data on XFS mounted with pquota"
            ),
        }
    }
}

/// Sets the limits of a container, and returns the keys of those that cannot be
/// enforced.
pub(super) fn apply(
    blueprint: &Blueprint<'_>,
    host: &mut HostConfig,
) -> Result<Vec<String>, BackendError> {
    let mut unenforced = Vec::new();
    for kind in LimitKind::ALL {
        let limit = blueprint.settings.limits.get(kind);
        if limit.value == 0 {
            continue;
        }
        if enforceable(blueprint, kind) {
            set(host, kind, limit.value);
        } else if blueprint.settings.limits.requires(kind) {
            return Err(kind.unenforceable(kind.reason()));
        } else {
            unenforced.push(kind.key().to_owned());
        }
    }
    Ok(unenforced)
}

/// Refuses required limits that the engine cannot enforce.
pub(in crate::backends::docker) fn check_limits(
    settings: &DockerSettings,
    info: &EngineInfo,
) -> Result<(), BackendError> {
    for kind in LimitKind::ALL {
        if settings.limits.requires(kind) && !can_limit(info, kind) {
            return Err(kind.unenforceable(kind.reason()));
        }
    }
    Ok(())
}

fn enforceable(blueprint: &Blueprint<'_>, kind: LimitKind) -> bool {
    can_limit(blueprint.info, kind) && !blueprint.leave_out.contains(&kind)
}

fn can_limit(info: &EngineInfo, kind: LimitKind) -> bool {
    match kind {
        LimitKind::Cpu => info.can_limit_cpu,
        LimitKind::Memory => info.can_limit_memory,
        LimitKind::Disk => info.can_limit_disk,
        LimitKind::Pids => info.can_limit_pids,
    }
}

fn set(host: &mut HostConfig, kind: LimitKind, value: u64) {
    let amount = |factor: u64| i64::try_from(value.saturating_mul(factor)).unwrap_or(i64::MAX);
    match kind {
        // From thousandths of a processor to billionths.
        LimitKind::Cpu => host.nano_cpus = Some(amount(1_000_000)),
        LimitKind::Memory => host.memory = Some(amount(1 << 20)),
        LimitKind::Disk => {
            host.storage_opt = Some(HashMap::from([("size".to_owned(), format!("{value}m"))]));
        }
        LimitKind::Pids => host.pids_limit = Some(amount(1)),
    }
}

/// Returns the limits that the engine silently dropped.
///
/// A disk limit is never among them: an engine that cannot enforce it refuses to
/// create the container, and not every engine that can shows it.
pub(in crate::backends::docker) fn limits_not_applied(
    inspect: &ContainerInspectResponse,
    body: &ContainerCreateBody,
) -> Vec<LimitKind> {
    let Some(asked) = &body.host_config else {
        return Vec::new();
    };
    let nothing = HostConfig::default();
    let got = inspect.host_config.as_ref().unwrap_or(&nothing);
    let holds = |asked: Option<i64>, got: Option<i64>| {
        // Zero, and for processes also a negative number, means no limit.
        asked.is_none_or(|asked| got.is_some_and(|got| (1..=asked).contains(&got)))
    };
    let quota = got.cpu_quota.is_some_and(|quota| quota > 0);
    let mut dropped = Vec::new();
    if asked.nano_cpus.is_some() && got.nano_cpus.unwrap_or(0) <= 0 && !quota {
        dropped.push(LimitKind::Cpu);
    }
    if !holds(asked.memory, got.memory) {
        dropped.push(LimitKind::Memory);
    }
    if !holds(asked.pids_limit, got.pids_limit) {
        dropped.push(LimitKind::Pids);
    }
    dropped
}
