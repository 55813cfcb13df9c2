//! Helper containers: short-lived containers that inspect an image, or do to
//! files what only a user inside a container may do.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
    StopContainerOptionsBuilder, WaitContainerOptions,
};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep};

use super::api::{EngineClient, EngineFault, classify};
use super::backend::Docker;
use super::guest::upload;
use super::lifecycle::force_remove;
use super::plan::{BOOT_DIR, GUEST_FILE, Ulimits, label};
use crate::HomeId;
use crate::backend::BackendError;
use crate::key::random_hex;

/// Label of helper containers.
pub(super) const HELPER_LABEL: &str = "vestal-errand";

/// Label of helper containers that copy files; its value is the target on the
/// host.
const COPY_TARGET_LABEL: &str = "vestal-errand-into";

const NAME_PREFIX: &str = "vestal-errand-";

/// Path of the copy program inside a helper container.
const COPIER_FILE: &str = "/.vestal/boot/stage";

/// Longest time without output. Deleting many files prints nothing.
const OUTPUT_TIMEOUT: Duration = Duration::from_mins(30);

/// Seconds that an abandoned helper gets to clean up before it is killed.
const STOP_SECONDS: i32 = 20;

/// Longest time to retry the removal of a helper container.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two removal attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Most output that is kept, per stream and per line.
const MAX_OUTPUT: usize = 64 << 10;

/// Capabilities of helper containers.
const CAPABILITIES: &[&str] = &["CHOWN", "DAC_OVERRIDE", "FOWNER"];

/// Capabilities of helper containers that copy files and restore all attributes.
const COPY_CAPABILITIES: &[&str] =
    &["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP"];

/// Returns whether a container has the name of a helper. The label alone proves
/// nothing: an image committed from a helper container carries it too.
pub(super) fn is_helper_name(name: &str) -> bool {
    name.trim_start_matches('/').starts_with(NAME_PREFIX)
}

/// A helper container to run.
#[derive(Debug)]
pub(super) struct Helper<'a> {
    /// The profile home it belongs to.
    pub(super) home: &'a HomeId,
    /// The image, by its id.
    pub(super) image: &'a str,
    /// The user it runs as.
    pub(super) user: &'a str,
    /// The arguments of the program.
    pub(super) args: Vec<String>,
    /// Directories of the host and their mount points.
    pub(super) mounts: Vec<(&'a Path, &'a str)>,
    pub(super) program: HelperProgram<'a>,
    /// Process limits, for engines that cannot set their own defaults.
    pub(super) ulimits: Option<Ulimits>,
}

/// The program of a helper container.
#[derive(Debug, Clone, Copy)]
pub(super) enum HelperProgram<'a> {
    /// The guest, by its path on the host.
    Guest(&'a Path),
    /// The guest, uploaded by the engine.
    UploadedGuest(&'a [u8]),
    /// The guest, to delete files.
    Eraser {
        /// Its path on the host.
        program: &'a Path,
        /// Whether the container goes without user namespaces.
        host_users: bool,
    },
    /// The copy program.
    Copier {
        /// Its path on the host.
        program: &'a Path,
        /// The target on the host. Abandoned helpers are found by it.
        into: &'a Path,
        /// Whether the container goes without user namespaces.
        host_users: bool,
        /// Receives each line that it prints.
        sink: &'a (dyn HelperOutput + Sync),
    },
}

/// Receives the output of a helper line by line.
pub(super) trait HelperOutput: std::fmt::Debug {
    fn line(&self, line: &str);
}

impl HelperProgram<'_> {
    /// Returns the program on the host, if it is there.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Guest(path) => Some(path),
            Self::UploadedGuest(_) => None,
            Self::Eraser { program, .. } | Self::Copier { program, .. } => Some(program),
        }
    }
}

/// Why a helper container failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelperError {
    /// The engine does not have the directories of this host.
    #[error("the engine does not see the files of this host")]
    NotShared,
    /// The engine is not allowed to set its default process limits.
    #[error("the engine cannot set process limits")]
    Rlimit,
    /// The program failed.
    #[error("{0}")]
    Failed(String),
    /// Anything else.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Docker {
    /// Runs a helper container as root, with explicit process limits where the
    /// engine needs them, and returns its output.
    pub(super) async fn run_helper(
        &self,
        client: &EngineClient,
        request: HelperRequest<'_>,
        args: Vec<String>,
        mounts: Vec<(&Path, &str)>,
        program: HelperProgram<'_>,
    ) -> Result<String, HelperError> {
        let HelperRequest { home, image, .. } = request;
        let ulimits = self.ulimits(client).await?;
        let mut helper = Helper { home, image, user: "0:0", args, mounts, program, ulimits };
        match run(client, &helper).await {
            Err(HelperError::Rlimit) if helper.ulimits.is_none() => {
                helper.ulimits = Some(self.remember_ulimits(client).await?);
                run(client, &helper).await
            }
            other => other,
        }
    }

    /// Returns explicit process limits if this engine is known to need them.
    pub(super) async fn ulimits(
        &self,
        client: &EngineClient,
    ) -> Result<Option<Ulimits>, BackendError> {
        let engine = &client.info().await?.id;
        Ok(self.cache.get::<bool>(&["ulimits", engine]).map(|_| Ulimits::within_reach()))
    }

    /// Records that this engine needs explicit process limits.
    pub(super) async fn remember_ulimits(
        &self,
        client: &EngineClient,
    ) -> Result<Ulimits, BackendError> {
        let engine = &client.info().await?.id;
        self.cache.put(&["ulimits", engine], &true);
        Ok(Ulimits::within_reach())
    }
}

/// What a helper container works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct HelperRequest<'a> {
    pub(super) home: &'a HomeId,
    pub(super) image: &'a str,
    pub(super) user: Option<&'a str>,
}

impl HelperRequest<'_> {
    /// Returns the guest's arguments that report on the image's user.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec!["prepare".to_owned()];
        if let Some(user) = self.user {
            args.extend(["--user".to_owned(), user.to_owned()]);
        }
        args
    }
}

/// Runs a helper container and returns its standard output. The container is
/// removed in every case.
async fn run(client: &EngineClient, helper: &Helper<'_>) -> Result<String, HelperError> {
    let name = random_hex::<6>()
        .map(|random| format!("{NAME_PREFIX}{random}"))
        .map_err(BackendError::io("name a container"))?;
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let created = client.api().create_container(Some(options), body(helper)).await;
    if let Err(error) = created {
        let error = helper.to_error(client, "create a helper container", error);
        // The container may exist although the answer was lost.
        remove(client, &name).await.ok();
        return Err(error);
    }
    let guard = RemoveOnDrop { client: client.clone(), name: Some(name.clone()) };
    let done = run_program(client, &name, helper).await;
    let removed = remove(client, &name).await;
    guard.disarm();
    let stdout = done?;
    removed?;
    Ok(stdout)
}

/// Removes a helper container when the future that runs it is dropped.
struct RemoveOnDrop {
    client: EngineClient,
    name: Option<String>,
}

impl RemoveOnDrop {
    fn disarm(mut self) {
        self.name = None;
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        // Without a runtime the container is left to the reaper.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let client = self.client.clone();
        runtime.spawn(async move { stop_abandoned(&client, &name).await });
    }
}

/// Stops a helper that nobody waits for. It removes what it has made so far.
async fn stop_abandoned(client: &EngineClient, name: &str) {
    let options = StopContainerOptionsBuilder::new().t(STOP_SECONDS).build();
    client.api().stop_container(name, Some(options)).await.ok();
    if let Err(error) = remove(client, name).await {
        tracing::warn!(%error, name, "a helper container is left to the reaper");
    }
}

/// Removes the home's helper containers that copy to `target` or below it. They
/// outlive a process that was killed.
pub(super) async fn end_copies_into(
    client: &EngineClient,
    home: &HomeId,
    target: &Path,
) -> Result<(), BackendError> {
    let wanted = vec![format!("{}={}", label::HOME, home.as_str()), COPY_TARGET_LABEL.to_owned()];
    let filters = HashMap::from([("label", wanted)]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let listed = client.api().list_containers(Some(options)).await;
    for container in listed.map_err(client.error("list containers"))? {
        let into = container.labels.as_ref().and_then(|labels| labels.get(COPY_TARGET_LABEL));
        let named = container.names.iter().flatten().any(|name| is_helper_name(name));
        if let (Some(into), Some(id)) = (into, &container.id)
            && named
            && Path::new(into).starts_with(target)
        {
            remove(client, id).await?;
        }
    }
    Ok(())
}

async fn run_program(
    client: &EngineClient,
    name: &str,
    helper: &Helper<'_>,
) -> Result<String, HelperError> {
    let api = client.api();
    if let HelperProgram::UploadedGuest(program) = helper.program {
        upload(client, name, program, &[]).await?;
    }
    let options = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true);
    let attached = api.attach_container(name, Some(options.build())).await;
    // Podman prepares the container here and reports errors that Docker reports
    // at the start.
    let mut output = attached
        .map_err(|error| helper.to_error(client, "attach to a helper container", error))?
        .output;
    let started = api.start_container(name, None).await;
    started.map_err(|error| helper.to_error(client, "start a helper container", error))?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut lines = HelperLines::default();
    loop {
        let piece = tokio::time::timeout(OUTPUT_TIMEOUT, output.next()).await;
        let piece = piece.map_err(|_| {
            HelperError::Failed("the helper printed nothing for too long".to_owned())
        })?;
        let Some(piece) = piece else { break };
        let (part, into) = match piece.map_err(client.error("attach to a helper container"))? {
            LogOutput::StdErr { message } => (message, &mut stderr),
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                if let HelperProgram::Copier { sink, .. } = helper.program {
                    lines.push(&message, sink);
                    continue;
                }
                (message, &mut stdout)
            }
            LogOutput::StdIn { .. } => continue,
        };
        let room = MAX_OUTPUT.saturating_sub(into.len()).min(part.len());
        into.extend_from_slice(&part[..room]);
    }
    let code = exit_code(client, name).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if code == 0 {
        Ok(text(&stdout))
    } else {
        Err(HelperError::Failed(format!("the helper exited with {code}: {}", text(&stderr))))
    }
}

/// Joins chunks of output into lines.
#[derive(Debug, Default)]
struct HelperLines {
    partial: Vec<u8>,
}

impl HelperLines {
    fn push(&mut self, piece: &[u8], sink: &dyn HelperOutput) {
        for byte in piece {
            if *byte == b'\n' {
                sink.line(&String::from_utf8_lossy(&self.partial));
                self.partial.clear();
            } else if self.partial.len() < MAX_OUTPUT {
                self.partial.push(*byte);
            }
        }
    }
}

async fn exit_code(client: &EngineClient, name: &str) -> Result<i64, BackendError> {
    let mut ends = client.api().wait_container(name, None::<WaitContainerOptions>);
    match ends.next().await {
        Some(Ok(end)) => Ok(end.status_code),
        Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => Ok(code),
        Some(Err(error)) => Err(client.error("wait for a helper container")(error)),
        None => Err(BackendError::Engine {
            action: "wait for a helper container".to_owned(),
            message: "it sent no answer".to_owned(),
        }),
    }
}

async fn remove(client: &EngineClient, name: &str) -> Result<(), BackendError> {
    let deadline = Instant::now() + REMOVE_TIMEOUT;
    loop {
        match force_remove(client, name).await {
            Ok(()) => return Ok(()),
            // The container is exiting.
            Err(error)
                if matches!(classify(&error), EngineFault::Conflict)
                    && Instant::now() < deadline =>
            {
                sleep(PAUSE).await;
            }
            Err(error) => return Err(client.error("remove a helper container")(error)),
        }
    }
}

impl Helper<'_> {
    fn to_error(
        &self,
        client: &EngineClient,
        action: &str,
        error: bollard::errors::Error,
    ) -> HelperError {
        // Podman answers the same error with different status codes, so only the
        // message counts.
        if let bollard::errors::Error::DockerResponseServerError { message, .. } = &error {
            if is_missing_source(message)
                || (self.program.path().is_some() && is_not_executable(message))
            {
                return HelperError::NotShared;
            }
            if is_rlimit(message) {
                return HelperError::Rlimit;
            }
        }
        HelperError::Backend(client.error(action)(error))
    }
}

/// Returns whether the message says, in Docker's or Podman's words, that a
/// directory to mount does not exist.
fn is_missing_source(message: &str) -> bool {
    message.contains("bind source path does not exist")
        || (message.contains("statfs") && message.contains("no such file or directory"))
}

/// Returns whether the message says that the program cannot be run. An engine
/// that does not see the file may have created a directory in its place.
fn is_not_executable(message: &str) -> bool {
    message.contains("open executable") || message.contains("is a directory")
}

/// Returns whether the message says that process limits cannot be set.
pub(super) fn is_rlimit(message: &str) -> bool {
    message.contains("rlimit")
}

fn body(helper: &Helper<'_>) -> ContainerCreateBody {
    let bind = |source: &Path, target: &str, read_only: bool| Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Mount::default()
    };
    let mut mounts: Vec<Mount> =
        helper.mounts.iter().map(|(source, target)| bind(source, target, false)).collect();
    let file = match helper.program {
        HelperProgram::Guest(_)
        | HelperProgram::UploadedGuest(_)
        | HelperProgram::Eraser { .. } => GUEST_FILE,
        HelperProgram::Copier { .. } => COPIER_FILE,
    };
    mounts.push(match helper.program.path() {
        Some(program) => bind(program, file, true),
        None => Mount {
            typ: Some(MountType::VOLUME),
            target: Some(BOOT_DIR.to_owned()),
            ..Mount::default()
        },
    });
    let labels = [
        (label::AGENT, "1"),
        (label::HOME, helper.home.as_str()),
        (label::PERSIST, "0"),
        (HELPER_LABEL, "1"),
    ];
    let mut labels: HashMap<String, String> =
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let host = |wanted: bool| wanted.then(|| "host".to_owned());
    let (capabilities, userns) = match helper.program {
        HelperProgram::Guest(_) | HelperProgram::UploadedGuest(_) => (CAPABILITIES, None),
        HelperProgram::Eraser { host_users, .. } => (CAPABILITIES, host(host_users)),
        HelperProgram::Copier { into, host_users, .. } => {
            labels.insert(COPY_TARGET_LABEL.to_owned(), into.to_string_lossy().into_owned());
            (COPY_CAPABILITIES, host(host_users))
        }
    };
    ContainerCreateBody {
        image: Some(helper.image.to_owned()),
        user: Some(helper.user.to_owned()),
        entrypoint: Some(vec![file.to_owned()]),
        cmd: Some(helper.args.clone()),
        working_dir: Some("/".to_owned()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        network_disabled: Some(true),
        labels: Some(labels),
        host_config: Some(HostConfig {
            mounts: Some(mounts),
            network_mode: Some("none".to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(capabilities.iter().map(|&name| name.to_owned()).collect()),
            userns_mode: userns,
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            ulimits: helper.ulimits.map(Ulimits::to_api),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}
