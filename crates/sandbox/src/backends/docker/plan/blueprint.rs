//! The input of a plan, the plan, and the function that makes it.

use std::path::PathBuf;

use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits};
use rustix::process::Resource;
use serde::{Deserialize, Serialize};

use super::labels::{container_name, labels};
use super::mounts::ContainerMounts;
use super::process::{self, ContainerInit, ContainerUsers};
use super::{extra_args, limits};
use crate::backend::{BackendError, Owner};
use crate::backends::docker::api::{EngineInfo, ImageInfo};
use crate::backends::docker::settings::DockerSettings;
use crate::backends::own_system::{LimitKind, WORKSPACE};
use crate::mounts::Mounts;
use crate::{HomeId, Key};

/// The input of a plan.
#[derive(Debug, Clone)]
pub(in crate::backends::docker) struct Blueprint<'a> {
    /// The sandbox.
    pub key: &'a Key,
    /// The profile home it belongs to.
    pub home: &'a HomeId,
    /// Generation of the instance.
    pub generation: u64,
    /// The instance.
    pub instance: &'a str,
    /// The process that the container ends with; `None` if it outlives processes.
    pub owner: Option<&'a Owner>,
    /// Hash of the settings that shape the container.
    pub spec_hash: &'a str,
    /// The settings.
    pub settings: &'a DockerSettings,
    /// The image.
    pub image: &'a ImageInfo,
    /// The engine.
    pub info: &'a EngineInfo,
    /// The user of jobs.
    pub user: &'a ImageUser,
    /// Source of the guest's program and settings.
    pub boot: MountSource,
    /// Source of the directory of the guest's socket.
    pub io: MountSource,
    /// Source of the guest's journal, logs and sessions.
    pub state: MountSource,
    /// Source of the workspace, unless a directory of the host is mounted there.
    pub workspace: MountSource,
    /// Source of the home of jobs.
    pub home_dir: MountSource,
    /// The files of this machine that may be mounted.
    pub mounts: &'a Mounts,
    /// Vestal's own directories, which no container sees.
    pub hidden: &'a [PathBuf],
    /// Limits that the engine refused in an earlier attempt.
    pub leave_out: &'a [LimitKind],
    /// Process limits, for engines that cannot set their own defaults.
    pub ulimits: Option<Ulimits>,
}

/// The user of jobs: the image's USER, or the host's user if the settings say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct ImageUser {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// The user's name in the image, if there is one.
    pub name: Option<String>,
    /// The user's home in the image.
    pub home: String,
}

impl ImageUser {
    /// Returns whether user and group are root.
    pub(in crate::backends::docker) fn is_root(&self) -> bool {
        self.uid == 0 && self.gid == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum MountSource {
    /// A directory of the engine's host.
    Bind(PathBuf),
    /// A volume of the engine, by name.
    Volume(String),
    /// An anonymous volume, removed with the container.
    Anonymous,
    /// Memory.
    Tmpfs,
}

/// Process limits that are passed to the engine explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) struct Ulimits {
    /// Open files.
    pub nofile: i64,
    /// Processes.
    pub nproc: i64,
}

/// A container to create.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::backends::docker) struct PlannedContainer {
    /// Its name.
    pub name: String,
    /// The engine's request.
    pub body: ContainerCreateBody,
    /// The platform, if the settings name one. It is a parameter of the request.
    pub platform: Option<String>,
    /// Keys of limits that are left out because they cannot be enforced.
    pub unenforced: Vec<String>,
    /// Settings of the user that weaken the isolation.
    pub weakened: Vec<String>,
    /// The user that the guest runs jobs as; `None` for its own.
    pub guest_user: Option<String>,
    /// Whether the workspace is the sandbox's own rather than a mount of the user.
    pub own_workspace: bool,
    /// Whether the home is the sandbox's own.
    pub own_home: bool,
}

/// Upper bound of the limit on open files.
const MOST_FILES: u64 = 1 << 20;

/// Upper bound of the limit on processes. The container's own limit is lower.
const MOST_PROCESSES: u64 = 30_000;

impl Ulimits {
    /// Returns limits that an unprivileged engine can set, assuming that it runs
    /// under the limits of this process.
    pub(in crate::backends::docker) fn within_reach() -> Self {
        let hard = |resource, most: u64| {
            let own = rustix::process::getrlimit(resource).maximum.unwrap_or(most);
            i64::try_from(own.min(most)).unwrap_or(i64::MAX)
        };
        Self {
            nofile: hard(Resource::Nofile, MOST_FILES),
            nproc: hard(Resource::Nproc, MOST_PROCESSES),
        }
    }

    pub(in crate::backends::docker) fn to_api(self) -> Vec<ResourcesUlimits> {
        [("nofile", self.nofile), ("nproc", self.nproc)]
            .map(|(name, limit)| ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(limit),
                hard: Some(limit),
            })
            .into()
    }
}

/// Returns the plan of a container.
pub(in crate::backends::docker) fn plan(
    blueprint: &Blueprint<'_>,
) -> Result<PlannedContainer, BackendError> {
    let settings = blueprint.settings;
    if let Some(problem) = settings.contradictions.first() {
        return Err(BackendError::Advised {
            problem: problem.clone(),
            advice: "`vestal config check` lists the contradictions".to_owned(),
        });
    }
    let extra = &settings.extra_args;
    let home = settings.user_home.as_deref();
    let first = ContainerInit::of(blueprint);
    let users = ContainerUsers::of(blueprint, first);
    let capabilities = users.capabilities(blueprint);
    let mounts = ContainerMounts::of(blueprint, first, &users)?;
    let (own_workspace, own_home) = (mounts.own_workspace, mounts.own_home);

    let mut host = HostConfig {
        cap_drop: Some(capabilities.drop),
        cap_add: Some(capabilities.add),
        security_opt: Some(extra_args::security(extra, blueprint.info, home)?),
        userns_mode: users.userns.map(str::to_owned),
        network_mode: (!settings.network).then(|| "none".to_owned()),
        auto_remove: Some(blueprint.owner.is_some()),
        // The guest reaps processes; the engine's init is not needed.
        init: Some(false),
        ..HostConfig::default()
    };
    mounts.apply(&mut host);
    let unenforced = limits::apply(blueprint, &mut host)?;
    let mut body = ContainerCreateBody {
        image: Some(blueprint.image.id.clone()),
        working_dir: Some(working_dir(blueprint)),
        labels: Some(labels(blueprint)?),
        ..ContainerCreateBody::default()
    };
    process::apply(blueprint, first, &users, &mut body);
    extra_args::apply(extra, blueprint, &mut body, &mut host);
    body.host_config = Some(host);

    let mut weakened = extra.weakens();
    weakened.extend(settings.volumes.weakens());
    if users.gives_up_userns {
        weakened.push("terminal.docker_run_as_host_user goes without user namespaces".to_owned());
    }
    Ok(PlannedContainer {
        name: container_name(blueprint.key, blueprint.owner.map(|_| blueprint.instance)),
        body,
        platform: extra.platform.clone(),
        unenforced,
        weakened,
        guest_user: users.jobs,
        own_workspace,
        own_home,
    })
}

/// Returns the working directory of the guest. The engine creates it.
fn working_dir(blueprint: &Blueprint<'_>) -> String {
    let requested = blueprint.settings.cwd.as_deref().and_then(std::path::Path::to_str);
    requested.unwrap_or(WORKSPACE).to_owned()
}
