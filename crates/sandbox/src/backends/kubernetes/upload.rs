//! A program's way into a pod: its shell receives it.

use std::borrow::Cow;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, timeout_at};

use super::backend::Kubernetes;
use super::cluster::Cluster;
use super::exec::{ExecFailure, PodExecStream};
use super::objects::Pod;
use crate::backend::BackendError;
use crate::backends::docker::one_line;
use crate::backends::own_system::{BOOT_DIR, IO_DIR};
use crate::embedded::{STAGE_PROGRAM, guest_for};
use crate::{Progress, ProgressSink};

/// Longest time without a sign of life while the guest is put there and starts.
const BOOT_TIMEOUT: Duration = Duration::from_mins(2);

/// Longest time for that in all, whatever the pod says meanwhile.
const BOOT_LIMIT: Duration = Duration::from_mins(10);

/// Most bytes of a pod's shell that are none of what it was asked.
const MAX_NOISE: usize = 1 << 20;

/// How long an ended pod may take to be reported as such.
const REPORT_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest line that is read from a pod's shell.
const MAX_LINE: u64 = 4096;

/// A program that is put into a pod.
#[derive(Debug, Clone, Copy)]
pub(super) enum PodUpload<'a> {
    /// The guest, with its settings, for which the first process waits.
    Guest { settings: &'a [u8], has_claim: bool },
    /// The program that copies files, for whoever runs it.
    Stage,
}

impl PodUpload<'_> {
    /// Returns the program for an architecture.
    fn program(
        self,
        backend: &Kubernetes,
        processor: &str,
    ) -> Result<Cow<'static, [u8]>, BackendError> {
        match self {
            Self::Guest { .. } => guest_for(processor, backend.guests_dir()),
            Self::Stage if ["", std::env::consts::ARCH].contains(&processor) => {
                Ok(STAGE_PROGRAM.bytes.into())
            }
            Self::Stage => Err(BackendError::Advised {
                problem: format!(
                    "files are on nodes of the architecture {processor}, for which there is no \
                     program that copies"
                ),
                advice: "choose nodes of this machine's architecture: \
                         terminal.kubernetes_node_selector"
                    .to_owned(),
            }),
        }
    }

    /// What the pod's shell does to receive it: it says what the node is, takes so many bytes (its
    /// input cannot be ended), and reports when the guest listens.
    fn receiver(self) -> String {
        let wait = match self {
            Self::Guest { .. } => format!(
                ": >go\n\
                 echo 'vestal stored'\n\
                 i=0; until [ -S {IO_DIR}/guest.sock ]; do\n\
                 i=$((i+1)); if [ \"$i\" -gt 1200 ]; then echo 'vestal late'; exit; fi\n\
                 sleep 0.05 2>/dev/null || sleep 1; done\n"
            ),
            Self::Stage => String::new(),
        };
        format!(
            "set -e; umask 022; cd {BOOT_DIR}\n\
             echo \"vestal need $(uname -m 2>/dev/null)\"\n\
             read p s f\n\
             head -c $((p+s)) >.bundle\n\
             head -c \"$p\" .bundle >.guest\n\
             tail -c \"$s\" .bundle >settings\n\
             rm -f .bundle; chmod 755 .guest\n\
             if [ \"$f\" != - ]; then printf %s \"$f\" >failpoint; fi\n\
             mv .guest guest\n\
             {wait}echo 'vestal up'\n"
        )
    }
}

/// Puts a program into a pod, and waits until a guest listens.
pub(super) async fn put_program(
    backend: &Kubernetes,
    cluster: &Cluster,
    pod: &Pod,
    upload: &PodUpload<'_>,
    progress: &ProgressSink,
) -> Result<(), BackendError> {
    let name = &pod.metadata.name;
    let script = upload.receiver();
    let stream = PodExecStream::start(cluster, name, &["/bin/sh", "-c", &script]).await;
    let mut stream = match stream {
        Ok(stream) => BufReader::new(stream),
        Err(ExecFailure::Failed(error)) => return Err(error),
        Err(ExecFailure::NotRunning) => return Err(ended(cluster, upload, pod, "").await),
    };
    let lost = |error: std::io::Error| cluster.unreachable(&error.to_string());
    let failed = |reason: String| BackendError::GuestFailed { reason };
    let limit = Instant::now() + BOOT_LIMIT;
    let (mut sent, mut noise) = (false, 0);
    loop {
        let deadline = limit.min(Instant::now() + BOOT_TIMEOUT);
        let line = match timeout_at(deadline, read_line(&mut stream)).await {
            Ok(Ok(line)) => line,
            Ok(Err(error))
                if error.kind() == std::io::ErrorKind::UnexpectedEof
                    || error.kind() == std::io::ErrorKind::ConnectionRefused
                    || error.kind() == std::io::ErrorKind::ConnectionAborted =>
            {
                let words = stream.get_ref().complaint().to_owned();
                return Err(ended(cluster, upload, pod, &words).await);
            }
            Ok(Err(error)) => return Err(lost(error)),
            Err(_) => {
                return Err(failed(format!(
                    "the pod did not answer within {} s",
                    BOOT_TIMEOUT.as_secs()
                )));
            }
        };
        let Some(said) = line.strip_prefix("vestal ") else {
            noise += line.len() + 1;
            if noise > MAX_NOISE {
                return Err(failed("the shell of its image does not stop talking".to_owned()));
            }
            continue;
        };
        match said.split_once(' ').unwrap_or((said, "")) {
            ("need", processor) if !sent => {
                sent = true;
                let program = upload.program(backend, &one_line(processor))?;
                let what = match upload {
                    PodUpload::Guest { .. } => "putting the guest into the pod",
                    PodUpload::Stage => "putting the program that copies into the pod",
                };
                progress.report(Progress::Starting { what: what.to_owned() });
                let sending = send(&mut stream, &program, upload);
                match timeout_at(limit, sending).await {
                    Ok(done) => done.map_err(lost)?,
                    Err(_) => return Err(failed("the pod did not take its program".to_owned())),
                }
            }
            ("stored", _) if sent => {}
            ("up", _) if sent => return Ok(()),
            ("late", _) => return Err(failed("it was not ready within a minute".to_owned())),
            _ => return Err(failed("its pod sent an invalid answer".to_owned())),
        }
    }
}

async fn read_line(stream: &mut BufReader<PodExecStream>) -> std::io::Result<String> {
    use tokio::io::AsyncReadExt as _;
    let mut line = Vec::new();
    let count = stream.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    if count == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim().to_owned())
}

async fn send(
    stream: &mut BufReader<PodExecStream>,
    program: &[u8],
    upload: &PodUpload<'_>,
) -> std::io::Result<()> {
    let settings = match upload {
        PodUpload::Guest { settings, .. } => settings,
        PodUpload::Stage => &b""[..],
    };
    let failpoint = guest_failpoint().unwrap_or_else(|| "-".to_owned());
    let head = format!("{} {} {failpoint}\n", program.len(), settings.len());
    for part in [head.as_bytes(), program, settings] {
        stream.write_all(part).await?;
    }
    stream.flush().await
}

/// Returns why a guest is not there, from what its pod's end says.
async fn ended(
    cluster: &Cluster,
    upload: &PodUpload<'_>,
    pod: &Pod,
    complaint: &str,
) -> BackendError {
    let deadline = Instant::now() + REPORT_TIMEOUT;
    let over = |seen: Option<&Pod>| match seen {
        Some(seen) if seen.metadata.uid == pod.metadata.uid => {
            (!seen.runs()).then(|| Some(seen.clone()))
        }
        _ => Some(None),
    };
    let words = one_line(complaint);
    if !words.is_empty() {
        let cannot = ["Read-only", "Permission denied", "No space left", "not found"];
        if cannot.iter().any(|part| words.contains(part)) {
            return BackendError::Advised {
                problem: format!("the guest's program cannot be put into the pod: {words}"),
                advice:
                    "the image needs /bin/sh, head, tail and chmod, and 4 MiB of the node's disk"
                        .to_owned(),
            };
        }
    }
    match cluster.wait_for(&pod.metadata.name, deadline, over).await {
        Ok(Some(Some(seen))) => match seen.guest_failure() {
            Some(reason) => {
                let has_claim = matches!(upload, PodUpload::Guest { has_claim: true, .. });
                if reason.contains("Permission denied") && has_claim {
                    return BackendError::Advised {
                        problem: format!("the guest cannot write to its volume: {reason}"),
                        advice: "the image's user is not root: name its number with \
                                 terminal.kubernetes_run_as_user, so that the volume is given to it"
                            .to_owned(),
                    };
                }
                BackendError::GuestFailed { reason }
            }
            None => BackendError::GuestFailed { reason: "its pod ended".to_owned() },
        },
        Ok(Some(None)) => BackendError::GuestFailed { reason: "its pod was deleted".to_owned() },
        Ok(None) if words.is_empty() => cluster.unreachable("the connection to the pod was lost"),
        Ok(None) => BackendError::GuestFailed { reason: words },
        Err(error) => error,
    }
}

/// Returns a test's failpoint for the guest.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a switch of tests is not a setting")]
fn guest_failpoint() -> Option<String> {
    std::env::var("VESTAL_GUEST_FAILPOINT").ok()
}

#[cfg(not(feature = "failpoints"))]
fn guest_failpoint() -> Option<String> {
    None
}
