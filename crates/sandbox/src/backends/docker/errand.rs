//! Containers made for one errand: to look into an image, or to do to files
//! what only a user inside may do.

use std::path::Path;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, UploadToContainerOptionsBuilder,
    WaitContainerOptions,
};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep};

use super::api::{Client, Fault, fault};
use super::boot;
use super::plan::{BOOT_DIR, GUEST_FILE, Ulimits, label};
use super::remove::force_remove;
use crate::HomeId;
use crate::backend::BackendError;
use crate::key::random_hex;

/// Marks containers of this kind.
pub(super) const ERRAND_LABEL: &str = "vestal-errand";

/// Longest time an errand may take: it may have to copy or delete many files.
const WITHIN: Duration = Duration::from_mins(30);

/// How long an engine may take to remove the container of an errand.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Time between two attempts at that.
const PAUSE: Duration = Duration::from_millis(50);

/// Most that is read of what an errand says.
const MAX_SAID: usize = 64 << 10;

/// What an errand may do beyond what its user may.
const CAPABILITIES: [&str; 3] = ["CHOWN", "DAC_OVERRIDE", "FOWNER"];

/// Something to be done in a container.
#[derive(Debug)]
pub(super) struct Errand<'a> {
    /// The home it is done for.
    pub(super) home: &'a HomeId,
    /// The image, by its id.
    pub(super) image: &'a str,
    /// Whom it is done as.
    pub(super) user: &'a str,
    /// The guest's verb and its arguments.
    pub(super) words: Vec<String>,
    /// Directories of the host and where they are found.
    pub(super) mounts: Vec<(&'a Path, &'a str)>,
    /// The guest's program on the host; absent: it is sent along.
    pub(super) program: Option<&'a Path>,
    /// Limits of processes, for engines that may not set their own.
    pub(super) ulimits: Option<Ulimits>,
}

/// Why an errand failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ErrandError {
    /// The engine does not see a directory of this host.
    #[error("the engine does not see the files of this host")]
    NotShared,
    /// The engine may not set the limits of processes that it wants to.
    #[error("the engine cannot set the limits of processes")]
    Rlimit,
    /// The program said no.
    #[error("{0}")]
    Failed(String),
    /// Anything else.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Does an errand and returns what it printed. The container is gone
/// afterwards, however it went.
pub(super) async fn run(client: &Client, errand: &Errand<'_>) -> Result<String, ErrandError> {
    let name = random_hex::<6>()
        .map(|random| format!("vestal-errand-{random}"))
        .map_err(BackendError::io("name a container"))?;
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let created = client.api().create_container(Some(options), body(errand)).await;
    if let Err(error) = created {
        let refusal = errand.refusal(client, "make a container for an errand", error);
        // The answer may have been lost, not the container.
        remove(client, &name).await.ok();
        return Err(refusal);
    }
    let done = tokio::time::timeout(WITHIN, carry_out(client, &name, errand)).await;
    let removed = remove(client, &name).await;
    let said = done.map_err(|_| ErrandError::Failed("it took too long".to_owned()))??;
    removed?;
    Ok(said)
}

async fn carry_out(
    client: &Client,
    name: &str,
    errand: &Errand<'_>,
) -> Result<String, ErrandError> {
    let api = client.api();
    if errand.program.is_none() {
        upload(client, name, &[]).await?;
    }
    let options = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true);
    let attached = api.attach_container(name, Some(options.build())).await;
    // Podman prepares it for this, and so may refuse here what others refuse at
    // the start.
    let mut output =
        attached.map_err(|error| errand.refusal(client, "listen to a container", error))?.output;
    let started = api.start_container(name, None).await;
    started.map_err(|error| errand.refusal(client, "start a container for an errand", error))?;
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    while let Some(piece) = output.next().await {
        let (part, into) = match piece.map_err(client.error("listen to a container"))? {
            LogOutput::StdErr { message } => (message, &mut complaint),
            LogOutput::StdOut { message } | LogOutput::Console { message } => (message, &mut said),
            LogOutput::StdIn { .. } => continue,
        };
        let room = MAX_SAID.saturating_sub(into.len()).min(part.len());
        into.extend_from_slice(&part[..room]);
    }
    let code = exit_code(client, name).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if code == 0 {
        Ok(text(&said))
    } else {
        Err(ErrandError::Failed(format!("it ended with {code}: {}", text(&complaint))))
    }
}

async fn exit_code(client: &Client, name: &str) -> Result<i64, BackendError> {
    let mut ends = client.api().wait_container(name, None::<WaitContainerOptions>);
    match ends.next().await {
        Some(Ok(end)) => Ok(end.status_code),
        Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => Ok(code),
        Some(Err(error)) => Err(client.error("wait for a container")(error)),
        None => Err(BackendError::Engine {
            action: "wait for a container".to_owned(),
            message: "it said nothing".to_owned(),
        }),
    }
}

/// Sends the guest's program and settings into a container that has a volume
/// for them.
pub(super) async fn upload(
    client: &Client,
    name: &str,
    settings: &[u8],
) -> Result<(), BackendError> {
    let archive = boot::archive(settings).map_err(BackendError::io("pack the guest"))?;
    let options = UploadToContainerOptionsBuilder::new().path(BOOT_DIR).build();
    let body = bollard::body_full(archive.into());
    client
        .api()
        .upload_to_container(name, Some(options), body)
        .await
        .map_err(client.error("send the guest into the container"))
}

/// Removes the container of an errand, however far it got.
async fn remove(client: &Client, name: &str) -> Result<(), BackendError> {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        match force_remove(client, name).await {
            Ok(()) => return Ok(()),
            // It is just ending.
            Err(error) if matches!(fault(&error), Fault::Conflict) && Instant::now() < deadline => {
                sleep(PAUSE).await;
            }
            Err(error) => return Err(client.error("remove a container")(error)),
        }
    }
}

impl Errand<'_> {
    fn refusal(&self, client: &Client, action: &str, error: bollard::errors::Error) -> ErrandError {
        // The status tells nothing: Podman has another one for the same at each
        // step.
        if let bollard::errors::Error::DockerResponseServerError { message, .. } = &error {
            if is_missing_source(message) || (self.program.is_some() && is_no_program(message)) {
                return ErrandError::NotShared;
            }
            if is_rlimit(message) {
                return ErrandError::Rlimit;
            }
        }
        ErrandError::Backend(client.error(action)(error))
    }
}

/// Returns whether an engine complains that a directory to mount is not there:
/// the words of Docker and of Podman.
fn is_missing_source(message: &str) -> bool {
    message.contains("bind source path does not exist")
        || (message.contains("statfs") && message.contains("no such file or directory"))
}

/// Returns whether an engine complains that the guest's program is none: one
/// that does not see it may have made a directory in its place.
fn is_no_program(message: &str) -> bool {
    message.contains("open executable") || message.contains("is a directory")
}

/// Returns whether an engine complains that it cannot set limits of processes.
pub(super) fn is_rlimit(message: &str) -> bool {
    message.contains("rlimit")
}

fn body(errand: &Errand<'_>) -> ContainerCreateBody {
    let bind = |source: &Path, target: &str, read_only: bool| Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Mount::default()
    };
    let mut mounts: Vec<Mount> =
        errand.mounts.iter().map(|(source, target)| bind(source, target, false)).collect();
    mounts.push(match errand.program {
        Some(program) => bind(program, GUEST_FILE, true),
        None => Mount {
            typ: Some(MountType::VOLUME),
            target: Some(BOOT_DIR.to_owned()),
            ..Mount::default()
        },
    });
    let labels = [
        (label::AGENT, "1"),
        (label::HOME, errand.home.as_str()),
        (label::PERSIST, "0"),
        (ERRAND_LABEL, "1"),
    ];
    ContainerCreateBody {
        image: Some(errand.image.to_owned()),
        user: Some(errand.user.to_owned()),
        entrypoint: Some(vec![GUEST_FILE.to_owned()]),
        cmd: Some(errand.words.clone()),
        working_dir: Some("/".to_owned()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        network_disabled: Some(true),
        labels: Some(
            labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect(),
        ),
        host_config: Some(HostConfig {
            mounts: Some(mounts),
            network_mode: Some("none".to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            ulimits: errand.ulimits.map(Ulimits::to_api),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}
