//! Limits: which are asked for, which can be enforced, which the engine kept.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};

use super::blueprint::Blueprint;
use crate::backend::BackendError;
use crate::backends::docker::api::EngineInfo;
use crate::backends::docker::settings::DockerSettings;
use crate::backends::limits::LimitKind;

impl LimitKind {
    /// Returns the error for a limit that must hold and does not.
    pub(in crate::backends::docker) fn unenforceable(self, reason: &str) -> BackendError {
        BackendError::Unenforceable {
            key: self.key(),
            reason: reason.to_owned(),
            advice: self.advice(),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Cpu | Self::Memory | Self::Pids => {
                "the container engine has no control group for it"
            }
            Self::Disk => "the container engine's storage has no quotas",
        }
    }

    fn advice(self) -> String {
        let key = self.key();
        match self {
            Self::Cpu | Self::Memory | Self::Pids => format!(
                "set {key} to 0 to go without, or give the engine's user that control group \
                 (`vestal doctor` shows what the engine can limit)"
            ),
            Self::Disk => format!(
                "set {key} to 0 to go without, or keep the engine's data on XFS mounted with pquota"
            ),
        }
    }
}

/// Puts the limits into the host's part of a container, and returns the keys of
/// those that cannot be enforced.
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

/// Checks what of the settings can be checked without making anything.
pub(in crate::backends::docker) fn vet(
    settings: &DockerSettings,
    info: &EngineInfo,
) -> Result<(), BackendError> {
    for kind in LimitKind::ALL {
        if settings.limits.requires(kind) && !able(info, kind) {
            return Err(kind.unenforceable(kind.reason()));
        }
    }
    Ok(())
}

fn enforceable(blueprint: &Blueprint<'_>, kind: LimitKind) -> bool {
    able(blueprint.info, kind) && !blueprint.leave_out.contains(&kind)
}

fn able(info: &EngineInfo, kind: LimitKind) -> bool {
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
        // Thousandths of a processor; the engine counts in billionths.
        LimitKind::Cpu => host.nano_cpus = Some(amount(1_000_000)),
        LimitKind::Memory => host.memory = Some(amount(1 << 20)),
        LimitKind::Disk => {
            host.storage_opt = Some(HashMap::from([("size".to_owned(), format!("{value}m"))]));
        }
        LimitKind::Pids => host.pids_limit = Some(amount(1)),
    }
}

/// Returns the limits that the engine was told of and did not take: some drop
/// them without a word.
///
/// A disk limit is not among them: engines that cannot enforce one refuse to
/// make the container, and not all that can show it.
pub(in crate::backends::docker) fn read_back(
    inspect: &ContainerInspectResponse,
    body: &ContainerCreateBody,
) -> Vec<LimitKind> {
    let Some(asked) = &body.host_config else {
        return Vec::new();
    };
    let nothing = HostConfig::default();
    let got = inspect.host_config.as_ref().unwrap_or(&nothing);
    let holds = |asked: Option<i64>, got: Option<i64>| {
        // Zero, and for processes also a negative number, stand for no limit.
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
