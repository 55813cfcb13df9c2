//! Containers made for one errand: to look into an image, or to do to files
//! what only a user inside may do.

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

use super::api::{Client, Fault, fault};
use super::backend::Docker;
use super::guest::upload;
use super::lifecycle::force_remove;
use super::plan::{BOOT_DIR, GUEST_FILE, Ulimits, label};
use crate::HomeId;
use crate::backend::BackendError;
use crate::key::random_hex;

/// Marks containers of this kind.
pub(super) const ERRAND_LABEL: &str = "vestal-errand";

/// Marks those that copy files, with where they copy them to.
const INTO_LABEL: &str = "vestal-errand-into";

/// Beginning of their names.
const NAME: &str = "vestal-errand-";

/// Where the program that copies files is found.
const COPIER_FILE: &str = "/.vestal/boot/stage";

/// Longest time an errand may go without a word: it may have to delete many
/// files.
const SILENCE: Duration = Duration::from_mins(30);

/// Seconds that an errand is given to tidy up when nobody waits for it.
const TIDY_SECONDS: i32 = 20;

/// How long an engine may take to remove the container of an errand.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Time between two attempts at that.
const PAUSE: Duration = Duration::from_millis(50);

/// Most that is read of what an errand says.
const MAX_SAID: usize = 64 << 10;

/// What an errand may do beyond what its user may.
const CAPABILITIES: &[&str] = &["CHOWN", "DAC_OVERRIDE", "FOWNER"];

/// What one that copies files may do as well: make them what they were.
const COPYING: &[&str] = &["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP"];

/// Returns whether a container's name is an errand's. Its label alone does not
/// tell: an image made of one hands it on.
pub(super) fn is_name(name: &str) -> bool {
    name.trim_start_matches('/').starts_with(NAME)
}

/// Something to be done in a container.
#[derive(Debug)]
pub(super) struct Errand<'a> {
    /// The home it is done for.
    pub(super) home: &'a HomeId,
    /// The image, by its id.
    pub(super) image: &'a str,
    /// Whom it is done as.
    pub(super) user: &'a str,
    /// The program's verb and its arguments.
    pub(super) words: Vec<String>,
    /// Directories of the host and where they are found.
    pub(super) mounts: Vec<(&'a Path, &'a str)>,
    /// What runs.
    pub(super) program: Runner<'a>,
    /// Limits of processes, for engines that may not set their own.
    pub(super) ulimits: Option<Ulimits>,
}

/// What runs an errand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Runner<'a> {
    /// The guest, by its path on the host.
    Guest(&'a Path),
    /// The guest, whose program is sent along.
    SentGuest(&'a [u8]),
    /// The guest, to delete files.
    Eraser {
        /// Its path on the host.
        program: &'a Path,
        /// Whether its users are to be the host's own.
        as_host: bool,
    },
    /// The program that copies files.
    Copier {
        /// Its path on the host.
        program: &'a Path,
        /// What it copies to on the host, by which the errand is found.
        into: &'a Path,
        /// Whether its users are to be the host's own.
        as_host: bool,
        /// Who hears the lines that it prints.
        listener: &'a (dyn Listener + Sync),
    },
}

/// Who hears what an errand prints, line by line, as it comes.
pub(super) trait Listener: std::fmt::Debug {
    fn hear(&self, line: &str);
}

impl Runner<'_> {
    /// Returns the program on the host, if it is there.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Guest(path) => Some(path),
            Self::SentGuest(_) => None,
            Self::Eraser { program, .. } | Self::Copier { program, .. } => Some(program),
        }
    }
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

impl Docker {
    /// Does an errand as root, with explicit limits where the engine needs them.
    pub(super) async fn errand(
        &self,
        client: &Client,
        request: Request<'_>,
        words: Vec<String>,
        mounts: Vec<(&Path, &str)>,
        program: Runner<'_>,
    ) -> Result<String, ErrandError> {
        let Request { home, image, .. } = request;
        let ulimits = self.ulimits(client).await?;
        let mut errand = Errand { home, image, user: "0:0", words, mounts, program, ulimits };
        match run(client, &errand).await {
            Err(ErrandError::Rlimit) if errand.ulimits.is_none() => {
                errand.ulimits = Some(self.remember_ulimits(client).await?);
                run(client, &errand).await
            }
            other => other,
        }
    }

    /// Returns the limits of processes to give explicitly, if this engine is
    /// known to need them.
    pub(super) async fn ulimits(&self, client: &Client) -> Result<Option<Ulimits>, BackendError> {
        let engine = &client.info().await?.id;
        Ok(self.cache.get::<bool>(&["ulimits", engine]).map(|_| Ulimits::within_reach()))
    }

    /// Remembers that this engine cannot set limits of processes by itself.
    pub(super) async fn remember_ulimits(&self, client: &Client) -> Result<Ulimits, BackendError> {
        let engine = &client.info().await?.id;
        self.cache.put(&["ulimits", engine], &true);
        Ok(Ulimits::within_reach())
    }
}

/// What is to be prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) home: &'a HomeId,
    pub(super) image: &'a str,
    pub(super) user: Option<&'a str>,
}

impl Request<'_> {
    fn words(&self) -> Vec<String> {
        let mut words = vec!["prepare".to_owned()];
        if let Some(user) = self.user {
            words.extend(["--user".to_owned(), user.to_owned()]);
        }
        words
    }
}

/// Does an errand and returns what it printed. The container is gone
/// afterwards, however it went.
pub(super) async fn run(client: &Client, errand: &Errand<'_>) -> Result<String, ErrandError> {
    let name = random_hex::<6>()
        .map(|random| format!("{NAME}{random}"))
        .map_err(BackendError::io("name a container"))?;
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let created = client.api().create_container(Some(options), body(errand)).await;
    if let Err(error) = created {
        let refusal = errand.refusal(client, "make a container for an errand", error);
        // The answer may have been lost, not the container.
        remove(client, &name).await.ok();
        return Err(refusal);
    }
    let leftover = Leftover { client: client.clone(), name: Some(name.clone()) };
    let done = carry_out(client, &name, errand).await;
    let removed = remove(client, &name).await;
    leftover.disarm();
    let said = done?;
    removed?;
    Ok(said)
}

/// A container that goes when nobody waits for its errand any more.
struct Leftover {
    client: Client,
    name: Option<String>,
}

impl Leftover {
    fn disarm(mut self) {
        self.name = None;
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        // A program that is ending leaves it to the reaper.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let client = self.client.clone();
        runtime.spawn(async move { abandon(&client, &name).await });
    }
}

/// Ends an errand that nobody waits for. What it has begun it takes back.
async fn abandon(client: &Client, name: &str) {
    let options = StopContainerOptionsBuilder::new().t(TIDY_SECONDS).build();
    client.api().stop_container(name, Some(options)).await.ok();
    if let Err(error) = remove(client, name).await {
        tracing::warn!(%error, name, "a container is left for later");
    }
}

/// Ends the errands of a home that copy to a place on the host or below it: they
/// were left by a process that died, and would go on.
pub(super) async fn end_copies(
    client: &Client,
    home: &HomeId,
    place: &Path,
) -> Result<(), BackendError> {
    let wanted = vec![format!("{}={}", label::HOME, home.as_str()), INTO_LABEL.to_owned()];
    let filters = HashMap::from([("label", wanted)]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let listed = client.api().list_containers(Some(options)).await;
    for container in listed.map_err(client.error("list containers"))? {
        let into = container.labels.as_ref().and_then(|labels| labels.get(INTO_LABEL));
        let named = container.names.iter().flatten().any(|name| is_name(name));
        if let (Some(into), Some(id)) = (into, &container.id)
            && named
            && Path::new(into).starts_with(place)
        {
            remove(client, id).await?;
        }
    }
    Ok(())
}

async fn carry_out(
    client: &Client,
    name: &str,
    errand: &Errand<'_>,
) -> Result<String, ErrandError> {
    let api = client.api();
    if let Runner::SentGuest(program) = errand.program {
        upload(client, name, program, &[]).await?;
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
    let mut lines = Lines::default();
    loop {
        let piece = tokio::time::timeout(SILENCE, output.next()).await;
        let piece = piece.map_err(|_| ErrandError::Failed("it took too long".to_owned()))?;
        let Some(piece) = piece else { break };
        let (part, into) = match piece.map_err(client.error("listen to a container"))? {
            LogOutput::StdErr { message } => (message, &mut complaint),
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                if let Runner::Copier { listener, .. } = errand.program {
                    lines.feed(&message, listener);
                    continue;
                }
                (message, &mut said)
            }
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

/// Puts lines together from pieces.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, piece: &[u8], listener: &dyn Listener) {
        for byte in piece {
            if *byte == b'\n' {
                listener.hear(&String::from_utf8_lossy(&self.begun));
                self.begun.clear();
            } else if self.begun.len() < MAX_SAID {
                self.begun.push(*byte);
            }
        }
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
            if is_missing_source(message)
                || (self.program.path().is_some() && is_no_program(message))
            {
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
    let file = match errand.program {
        Runner::Guest(_) | Runner::SentGuest(_) | Runner::Eraser { .. } => GUEST_FILE,
        Runner::Copier { .. } => COPIER_FILE,
    };
    mounts.push(match errand.program.path() {
        Some(program) => bind(program, file, true),
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
    let mut labels: HashMap<String, String> =
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let host = |wanted: bool| wanted.then(|| "host".to_owned());
    let (capabilities, userns) = match errand.program {
        Runner::Guest(_) | Runner::SentGuest(_) => (CAPABILITIES, None),
        Runner::Eraser { as_host, .. } => (CAPABILITIES, host(as_host)),
        Runner::Copier { into, as_host, .. } => {
            labels.insert(INTO_LABEL.to_owned(), into.to_string_lossy().into_owned());
            (COPYING, host(as_host))
        }
    };
    ContainerCreateBody {
        image: Some(errand.image.to_owned()),
        user: Some(errand.user.to_owned()),
        entrypoint: Some(vec![file.to_owned()]),
        cmd: Some(errand.words.clone()),
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
            ulimits: errand.ulimits.map(Ulimits::to_api),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}
