//! What a plan is made from, what it is, and how one becomes the other.

use std::path::PathBuf;

use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits};
use rustix::process::Resource;
use serde::{Deserialize, Serialize};

use super::labels::{container_name, labels};
use super::mounts::Places;
use super::process::{self, First, Users};
use super::{extra_args, limits};
use crate::backend::{BackendError, Owner};
use crate::backends::docker::api::{EngineInfo, ImageFacts};
use crate::backends::docker::settings::DockerSettings;
use crate::backends::layout::WORKSPACE;
use crate::backends::limits::LimitKind;
use crate::mounts::Mounts;
use crate::{HomeId, Key};

/// Everything that shapes a container.
#[derive(Debug, Clone)]
pub(in crate::backends::docker) struct Blueprint<'a> {
    /// The sandbox.
    pub key: &'a Key,
    /// The profile home it belongs to.
    pub home: &'a HomeId,
    /// Number of the instance among the sandbox's.
    pub generation: u64,
    /// The instance.
    pub instance: &'a str,
    /// The process it ends with; absent: it outlives processes.
    pub owner: Option<&'a Owner>,
    /// Hash of the settings it is made with.
    pub spec_hash: &'a str,
    /// The settings.
    pub settings: &'a DockerSettings,
    /// The image.
    pub image: &'a ImageFacts,
    /// The engine.
    pub info: &'a EngineInfo,
    /// Whom jobs run as.
    pub user: &'a JobUser,
    /// Where the guest's program and settings come from.
    pub boot: Source,
    /// Where the guest's socket is.
    pub io: Source,
    /// Where the guest keeps its journal, logs and sessions.
    pub state: Source,
    /// The sandbox's workspace, unless a directory of the host is mounted.
    pub workspace: Source,
    /// The home of the user of jobs.
    pub home_dir: Source,
    /// What of this machine may be mounted, where the engine sees its files.
    pub mounts: &'a Mounts,
    /// Our own directories, which no container sees.
    pub hidden: &'a [PathBuf],
    /// Limits that an earlier try has shown to be beyond this engine.
    pub leave_out: &'a [LimitKind],
    /// Limits of processes, for engines that may not set their own defaults.
    pub ulimits: Option<Ulimits>,
}

/// Whom jobs run as: the image's USER, or the host's user where that is asked
/// for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct JobUser {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// The user's name in the image, if there is one.
    pub name: Option<String>,
    /// The user's home in the image.
    pub home: String,
}

impl JobUser {
    /// Returns whether this is nobody but the image's root.
    pub(in crate::backends::docker) fn is_root(&self) -> bool {
        self.uid == 0 && self.gid == 0
    }
}

/// What is behind a place in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum Source {
    /// A directory of the engine's host.
    Bind(PathBuf),
    /// A volume of the engine, by name.
    Volume(String),
    /// A volume that is the container's own and goes with it.
    Anonymous,
    /// Memory.
    Tmpfs,
}

/// Limits of processes that have to be given explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) struct Ulimits {
    /// Open files.
    pub nofile: i64,
    /// Processes.
    pub nproc: i64,
}

/// A container to make.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::backends::docker) struct Plan {
    /// Its name.
    pub name: String,
    /// What the engine is told.
    pub body: ContainerCreateBody,
    /// The platform, where one is asked for; the engine takes it apart from the
    /// rest.
    pub platform: Option<String>,
    /// Keys of limits that are left out because they cannot be enforced.
    pub unenforced: Vec<String>,
    /// What weakens its isolation, at the user's own wish.
    pub weakened: Vec<String>,
    /// Whom the guest is to run jobs as; absent: as itself.
    pub guest_user: Option<String>,
    /// Whether the workspace is the sandbox's own, rather than something the
    /// user has put in its place.
    pub own_workspace: bool,
    /// Whether the home is the sandbox's own.
    pub own_home: bool,
}

/// Open files nobody needs more of.
const MOST_FILES: u64 = 1 << 20;

/// Processes nobody needs more of; the limit of the container counts first.
const MOST_PROCESSES: u64 = 30_000;

impl Ulimits {
    /// Returns limits that an engine which runs under the limits of this
    /// process can set without a privilege.
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

    /// Returns them in the engine's terms.
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

/// Returns the container that settings and facts call for.
pub(in crate::backends::docker) fn plan(blueprint: &Blueprint<'_>) -> Result<Plan, BackendError> {
    let settings = blueprint.settings;
    if let Some(problem) = settings.contradictions.first() {
        return Err(BackendError::Advised {
            problem: problem.clone(),
            advice: "`vestal config check` lists what contradicts each other".to_owned(),
        });
    }
    let extra = &settings.extra_args;
    let home = settings.user_home.as_deref();
    let first = First::of(blueprint);
    let users = Users::of(blueprint, first);
    let capabilities = users.capabilities(blueprint);
    let places = Places::of(blueprint, first, &users)?;
    let (own_workspace, own_home) = (places.own_workspace, places.own_home);

    let mut host = HostConfig {
        cap_drop: Some(capabilities.drop),
        cap_add: Some(capabilities.add),
        security_opt: Some(extra_args::security(extra, blueprint.info, home)?),
        userns_mode: users.userns.map(str::to_owned),
        network_mode: (!settings.network).then(|| "none".to_owned()),
        auto_remove: Some(blueprint.owner.is_some()),
        // The guest reaps; an init of the engine's would only be in between.
        init: Some(false),
        ..HostConfig::default()
    };
    places.apply(&mut host);
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
    Ok(Plan {
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

/// Returns where the guest starts. An engine makes the directory if there is
/// none.
fn working_dir(blueprint: &Blueprint<'_>) -> String {
    let asked = blueprint.settings.cwd.as_deref().and_then(std::path::Path::to_str);
    asked.unwrap_or(WORKSPACE).to_owned()
}
