//! Requests to the guest's program over there, which is put there first.

use std::borrow::Cow;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use vestal_config::Environment;
use vestal_stage::survey::MAX_REPORT;
use vestal_wire::machine::{MachineReply, MachineRequest, pack};
use vestal_wire::survey::MachineSurvey;

use super::failure::Failure;
use super::login::HostLogin;
use super::multiplex::Multiplexed;
use super::script::{self, Nonce, Reported};
use super::session::{GuestStream, SshSession};
use crate::backend::BackendError;
use crate::backends::docker::one_line;
use crate::embedded::{STAGE_PROGRAM, guest_for};
use crate::key::hex;
use crate::{Progress, ProgressSink, failpoint};

/// Longest time for the answer to a request that changes nothing long.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time for the start of a guest; the machine itself gives up earlier.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(70);

/// Longest time for removing files.
const REMOVAL_TIMEOUT: Duration = Duration::from_mins(10);

/// Longest time without a further piece of the guest's program being taken.
const STORE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of the program that are sent at a time.
const PIECE: usize = 32 << 10;

/// For how long a refusal is not asked for again: who fails to log in often is locked out.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// The guest's program for a kind of machine.
#[derive(Debug, Clone)]
struct Program {
    bytes: Cow<'static, [u8]>,
    hash: String,
    architecture: String,
}

impl Program {
    fn new(bytes: Cow<'static, [u8]>, architecture: &str) -> Self {
        let hash = hex(&Sha256::digest(&bytes));
        Self { bytes, hash, architecture: architecture.to_owned() }
    }
}

/// What a machine says of itself.
#[derive(Debug, Clone)]
pub(super) struct SurveyedMachine {
    pub(super) survey: MachineSurvey,
    /// The real path of the directory of all that is ours there.
    pub(super) root: PathBuf,
    /// The sha256 of the stage's program there.
    pub(super) stage: String,
}

/// Another machine.
#[derive(Debug)]
pub(super) struct Machine {
    ssh: Multiplexed,
    guests_dir: PathBuf,
    program: Mutex<Option<Program>>,
    stage: OnceLock<Program>,
    refused: Mutex<Option<(Instant, Failure)>>,
}

impl Machine {
    /// Returns the machine of a login. Nothing is asked yet.
    pub(super) fn new(
        login: HostLogin,
        run_dir: &Path,
        guests_dir: PathBuf,
        environment: &Environment,
    ) -> Result<Self, BackendError> {
        let ssh = Multiplexed::new(login, run_dir, environment)?;
        Ok(Self {
            ssh,
            guests_dir,
            program: Mutex::default(),
            stage: OnceLock::new(),
            refused: Mutex::default(),
        })
    }

    pub(super) fn login(&self) -> &HostLogin {
        &self.ssh.login
    }

    /// Asks the machine, which is given the guest's program if it lacks it.
    pub(super) async fn ask(
        &self,
        request: &MachineRequest,
        progress: &ProgressSink,
    ) -> Result<MachineReply, BackendError> {
        self.exchange(request, progress).await.map(|(reply, _)| reply)
    }

    /// Opens the byte stream to a guest; nothing if none listens.
    pub(super) async fn open(&self, instance: &str) -> Result<GuestStream, BackendError> {
        let request = MachineRequest::Connect { instance: instance.to_owned() };
        let not_listening = || BackendError::NotListening { id: instance.to_owned() };
        match self.exchange(&request, &ProgressSink::default()).await? {
            (MachineReply::Done, session) => session.into_stream().ok_or_else(not_listening),
            (MachineReply::NotListening, _) => Err(not_listening()),
            (other, _) => Err(self.unexpected(other)),
        }
    }

    /// Opens a byte stream to the API of the machine's container engine.
    pub(super) async fn open_engine(&self) -> Result<GuestStream, BackendError> {
        let failed = |reason: &str| BackendError::Advised {
            problem: format!("{} has no container engine for you: {reason}", self.login()),
            advice: format!(
                "on that machine: start Docker or Podman, and see that its user may use it \
                 ({} docker version); or set terminal.ssh_isolation to native",
                self.login().by_hand()
            ),
        };
        match self.exchange(&MachineRequest::Engine, &ProgressSink::default()).await? {
            (MachineReply::Done, session) => {
                session.into_stream().ok_or_else(|| failed("it closed the connection"))
            }
            (MachineReply::NoEngine { reason }, _) => Err(failed(&one_line(&reason))),
            (other, _) => Err(self.unexpected(other)),
        }
    }

    async fn exchange(
        &self,
        request: &MachineRequest,
        progress: &ProgressSink,
    ) -> Result<(MachineReply, SshSession), BackendError> {
        let bytes = pack(request).map_err(|error| BackendError::Advised {
            problem: format!("the request cannot be sent: {error}"),
            advice: "give it fewer or shorter variables".to_owned(),
        })?;
        let limit = match request {
            MachineRequest::Launch(_) => LAUNCH_TIMEOUT,
            MachineRequest::Remove { .. } | MachineRequest::RemoveFiles { .. } => REMOVAL_TIMEOUT,
            _ => REPLY_TIMEOUT,
        };
        let mut stored = false;
        loop {
            let program = self.program()?;
            let nonce = nonce()?;
            let command = script::run(&nonce, &program.hash);
            let (mut session, reported) = self.start(&command, &nonce, Some(&bytes)).await?;
            match reported {
                Reported::Runs => {
                    if let MachineRequest::Launch(order) = request {
                        // From here on the machine acts whatever becomes of this process.
                        failpoint::reach(if order.is_new {
                            "ssh.create.sent"
                        } else {
                            "ssh.start.sent"
                        });
                    }
                    let reply = timeout(limit, session.reply(self.login())).await;
                    let reply = reply.unwrap_or(Err(Failure::Silent(limit)));
                    let reply = reply.map_err(|failure| failure.into_error(self.login()))?;
                    return Ok((reply, session));
                }
                Reported::Needed { system, processor } => {
                    drop(session);
                    let needed = self.program_for(&system, &processor)?;
                    if needed.hash == program.hash {
                        if stored {
                            return Err(self.cannot_keep("it is gone right after it was stored"));
                        }
                        self.store("guest", &needed, progress).await?;
                        stored = true;
                    }
                    *self.program.lock().unwrap_or_else(PoisonError::into_inner) = Some(needed);
                }
                Reported::Ready | Reported::Stored | Reported::Refused(_) => {
                    return Err(self.cannot_keep("it answered another question"));
                }
            }
        }
    }

    /// Starts a command and reads what it reports: by the shared connection, which is made if it
    /// is not there, else by one of its own where that one carries no more.
    async fn start(
        &self,
        command: &str,
        nonce: &Nonce,
        request: Option<&[u8]>,
    ) -> Result<(SshSession, Reported), BackendError> {
        if let Some((at, failure)) =
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
            && at.elapsed() < REFUSED_FOR
        {
            return Err(failure.into_error(self.login()));
        }
        let first = self.ssh.spawn_shared(command)?;
        let failure = match self.try_start(first, nonce, request).await? {
            Ok(started) => return Ok(started),
            Err(failure) => failure,
        };
        let failure = match failure {
            Failure::TooManySessions => failure,
            refused @ Failure::Refused { .. } => return Err(self.refuse(refused)),
            // Without a shared connection `ssh` says something about a connection of its own,
            // which it must not make. What is wrong, if anything, shows when it is made.
            Failure::Unreachable(_) | Failure::Silent(_) => match self.ssh.connect().await? {
                Err(failure) => return Err(self.refuse(failure)),
                Ok(()) => {
                    let again = self.ssh.spawn_shared(command)?;
                    match self.try_start(again, nonce, request).await? {
                        Ok(started) => return Ok(started),
                        Err(failure) => failure,
                    }
                }
            },
        };
        if failure != Failure::TooManySessions {
            return Err(failure.into_error(self.login()));
        }
        let own = self.ssh.spawn_direct(command)?;
        let started = self.try_start(own, nonce, request).await?;
        started.map_err(|failure| failure.into_error(self.login()))
    }

    /// Returns the error, and remembers what will be refused again.
    fn refuse(&self, failure: Failure) -> BackendError {
        if matches!(failure, Failure::Refused { .. }) {
            let refused = (Instant::now(), failure.clone());
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
        }
        failure.into_error(self.login())
    }

    async fn try_start(
        &self,
        child: tokio::process::Child,
        nonce: &Nonce,
        request: Option<&[u8]>,
    ) -> Result<Result<(SshSession, Reported), Failure>, BackendError> {
        let mut session = SshSession::of(child).map_err(BackendError::io("run ssh"))?;
        let exchange = async {
            // It does not wait for the report: that would be another round trip.
            if let Some(request) = request {
                session.send(request).await;
            }
            session.report(self.login(), nonce).await
        };
        match timeout(REPLY_TIMEOUT, exchange).await {
            Ok(Ok(reported)) => Ok(Ok((session, reported))),
            Ok(Err(failure)) => Ok(Err(failure)),
            Err(_) => Ok(Err(Failure::Silent(REPLY_TIMEOUT))),
        }
    }

    /// Asks what a sandbox made of namespaces is planned from over there. The stage, which tells
    /// it, is put there if it is not.
    pub(super) async fn survey(
        &self,
        progress: &ProgressSink,
    ) -> Result<SurveyedMachine, BackendError> {
        let mut stored = false;
        loop {
            let stage = self.stage().clone();
            let request = MachineRequest::Survey { stage: stage.hash.clone() };
            match self.ask(&request, progress).await? {
                MachineReply::Surveyed { survey, root } => {
                    let fits = survey.len() <= MAX_REPORT;
                    let survey = fits.then(|| vestal_wire::decode(&survey).ok()).flatten();
                    let root = PathBuf::from(OsString::from_vec(root.to_vec()));
                    let survey = survey.filter(|_| root.is_absolute());
                    let survey = survey.ok_or_else(|| BackendError::Advised {
                        problem: format!("{} does not say what it is", self.login()),
                        advice: "see what answers there in place of the guest's program".to_owned(),
                    })?;
                    return Ok(SurveyedMachine { survey, root, stage: stage.hash });
                }
                MachineReply::NoStage if !self.is_like_this_machine()? => {
                    return Err(BackendError::Advised {
                        problem: format!(
                            "{} has another architecture than this machine, and cannot be given \
                             isolated sandboxes from here",
                            self.login()
                        ),
                        advice: "set terminal.ssh_isolation to none, or run vestal on a machine \
                                 of its architecture"
                            .to_owned(),
                    });
                }
                MachineReply::NoStage if !stored => {
                    self.store("stage", &stage, progress).await?;
                    stored = true;
                }
                MachineReply::NoStage => {
                    return Err(self.cannot_keep("it is gone right after it was stored"));
                }
                other => return Err(self.unexpected(other)),
            }
        }
    }

    /// Returns the stage's program for machines like this.
    fn stage(&self) -> &Program {
        self.stage.get_or_init(|| Program::new(Cow::Borrowed(STAGE_PROGRAM.bytes), ARCH))
    }

    /// Returns the architecture of the programs that the machine runs, once it has answered.
    pub(super) fn architecture(&self) -> Result<String, BackendError> {
        Ok(self.program()?.architecture)
    }

    /// Returns whether the machine runs the programs of this one.
    fn is_like_this_machine(&self) -> Result<bool, BackendError> {
        Ok(matches!(self.program()?.bytes, Cow::Borrowed(_)))
    }

    /// Puts a program of this kind there.
    async fn store(
        &self,
        kind: &str,
        program: &Program,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let nonce = nonce()?;
        let total = program.bytes.len();
        let command = script::store(&nonce, kind, &program.hash, total);
        let (mut session, reported) = self.start(&command, &nonce, None).await?;
        if reported != Reported::Ready {
            return Err(self.cannot_keep("it answered another question"));
        }
        let silent = || Failure::Silent(STORE_TIMEOUT).into_error(self.login());
        let mut sent = 0;
        for piece in program.bytes.chunks(PIECE) {
            timeout(STORE_TIMEOUT, session.send(piece)).await.map_err(|_| silent())?;
            sent += piece.len();
            progress.report(Progress::Copying {
                what: format!("the {kind} to {}", self.login()),
                files: 1,
                bytes: u64::try_from(sent).unwrap_or(u64::MAX),
                total: u64::try_from(total).ok(),
            });
        }
        session.end_input();
        let reported = timeout(STORE_TIMEOUT, session.report(self.login(), &nonce)).await;
        let reported = reported.map_err(|_| silent())?;
        match reported.map_err(|failure| failure.into_error(self.login()))? {
            Reported::Stored => Ok(()),
            Reported::Refused(words) => Err(self.cannot_keep(&one_line(&words))),
            Reported::Ready | Reported::Runs | Reported::Needed { .. } => {
                Err(self.cannot_keep("it answered another question"))
            }
        }
    }

    /// Returns the program that the machine is taken to need: what it needed before, else the
    /// one for machines like this.
    fn program(&self) -> Result<Program, BackendError> {
        if let Some(known) = self.program.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(known);
        }
        Ok(Program::new(guest_for("", &self.guests_dir)?, ARCH))
    }

    /// Returns the program for a machine that says of itself what it is.
    fn program_for(&self, system: &str, processor: &str) -> Result<Program, BackendError> {
        if system != "Linux" {
            return Err(BackendError::Advised {
                problem: format!("{} runs {}, not Linux", self.login(), one_line(system)),
                advice: "name a Linux machine with terminal.ssh_host".to_owned(),
            });
        }
        let processor = one_line(processor);
        Ok(Program::new(guest_for(&processor, &self.guests_dir)?, &processor))
    }

    fn cannot_keep(&self, words: &str) -> BackendError {
        BackendError::Advised {
            problem: format!("{} cannot keep Vestal's programs: {words}", self.login()),
            advice: format!(
                "see that there is space and that programs can be executed below the home, or in \
                 /var/tmp or /tmp: {}",
                self.login().by_hand()
            ),
        }
    }

    /// Returns the error for a reply that is not the wanted one.
    pub(super) fn unexpected(&self, reply: MachineReply) -> BackendError {
        let login = self.login();
        match reply {
            MachineReply::Elsewhere(made_on) => BackendError::Advised {
                problem: format!(
                    "the instance is on the machine {}, and {login} is another one that has the \
                     same home",
                    one_line(&made_on.host)
                ),
                advice: "name that machine with terminal.ssh_host; a name that stands for several \
                         machines reaches another one each time"
                    .to_owned(),
            },
            MachineReply::NotStarted { reason } => {
                BackendError::GuestFailed { reason: one_line(&reason) }
            }
            MachineReply::Failed { reason } => BackendError::Io {
                action: format!("do that on {login}"),
                source: std::io::Error::other(one_line(&reason)),
            },
            other => BackendError::Advised {
                problem: format!("{login} gave an answer to another question"),
                advice: format!(
                    "tell the authors of Vestal what it was: {:.60}",
                    format!("{other:?}")
                ),
            },
        }
    }
}

fn nonce() -> Result<Nonce, BackendError> {
    Nonce::new().map_err(BackendError::io("get random bytes"))
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod tests;
