//! One conversation's guard.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use tokio::sync::watch;
use vestal_sandbox::files::{Files, Links};
use vestal_sandbox::{Opening, Reach};

use super::ask::ApprovalWait;
use super::judge::{ApprovalContext, GuardedAction};
use super::path_context::PathContext;
use super::paths;
use super::policy::{
    ApprovalPolicy, ApprovalRefusal, Clearance, CommandPatterns, RefusalStatus, Unattended,
};
use super::shell::{self, Examined, Risk, ShellFinding};
use crate::tool::ToolContext;

/// Keeps what a person approved for always; the error says why it could not.
pub type Remember = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The directory that a command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkingDir<'a> {
    /// Where the session is.
    Session,
    /// This one, as the sandbox sees it.
    Given(&'a str),
    /// Unknown: the text is read by a program that already runs.
    Unknown,
}

/// Decides for one conversation what may be done.
///
/// The state is shared with the guards of its children and may be changed while
/// a turn runs: [`Guard::set_yolo`] acts at once, also on a question that is
/// being asked.
pub struct Guard {
    policy: Arc<ApprovalPolicy>,
    deny: Arc<CommandPatterns>,
    allow: Arc<CommandPatterns>,
    remember: Remember,
    state: Arc<GuardState>,
    child: Option<ChildGuard>,
}

/// What a conversation has been allowed so far.
struct GuardState {
    approved: Mutex<HashSet<String>>,
    /// Variables that commands set to something that may run where it is taken
    /// for a number. A session keeps its variables.
    suspects: Mutex<HashSet<String>>,
    yolo: watch::Sender<bool>,
    /// What happens when nobody can be asked, in place of what the settings say.
    unattended: Mutex<Option<Unattended>>,
    /// Held while a question is asked.
    turn: tokio::sync::Mutex<()>,
}

/// The guard is that of a child, which has nobody to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildGuard {
    /// Whether it approves what is dangerous by itself.
    pub(super) approves_by_itself: bool,
}

impl Guard {
    /// Returns a guard for a new conversation: nothing is approved yet, and
    /// questions are asked.
    pub fn new(policy: ApprovalPolicy, remember: Remember) -> Self {
        let state = GuardState {
            approved: Mutex::new(HashSet::new()),
            suspects: Mutex::new(HashSet::new()),
            yolo: watch::Sender::new(false),
            unattended: Mutex::new(None),
            turn: tokio::sync::Mutex::new(()),
        };
        Self {
            deny: Arc::new(CommandPatterns::globs(&policy.deny)),
            allow: Arc::new(CommandPatterns::approvals(&policy.allowlist)),
            policy: Arc::new(policy),
            remember,
            state: Arc::new(state),
            child: None,
        }
    }

    /// Returns the guard of a child: it shares what the conversation has been
    /// allowed, asks nobody, and refuses what is dangerous unless
    /// `delegation.subagent_auto_approve` is set.
    #[must_use]
    pub fn for_child(&self, auto_approve: bool) -> Self {
        Self {
            policy: Arc::clone(&self.policy),
            deny: Arc::clone(&self.deny),
            allow: Arc::clone(&self.allow),
            remember: Arc::clone(&self.remember),
            state: Arc::clone(&self.state),
            child: Some(ChildGuard { approves_by_itself: auto_approve }),
        }
    }

    /// Turns approvals off for this conversation, or on again. What is blocked stays
    /// blocked.
    pub fn set_yolo(&self, on: bool) {
        self.state.yolo.send_replace(on);
    }

    /// Reports whether everything is allowed in this conversation.
    pub fn is_yolo(&self) -> bool {
        *self.state.yolo.borrow()
    }

    /// Says what happens in this conversation to something dangerous when nobody can be asked,
    /// regardless of the settings.
    pub fn set_unattended(&self, unattended: Unattended) {
        *self.state.unattended.lock().unwrap_or_else(PoisonError::into_inner) = Some(unattended);
    }

    pub(super) fn unattended(&self) -> Unattended {
        let own = *self.state.unattended.lock().unwrap_or_else(PoisonError::into_inner);
        own.unwrap_or(self.policy.unattended)
    }

    /// Returns what has been approved for this conversation, sorted: each a
    /// rule's name and what it was about, secrets and all.
    pub fn approvals(&self) -> Vec<String> {
        let mut approvals: Vec<String> = self.approved().iter().cloned().collect();
        approvals.sort_unstable();
        approvals
    }

    /// Returns what the settings approve for every conversation.
    pub fn lasting_approvals(&self) -> &[String] {
        &self.policy.allowlist
    }

    /// Takes an approval for this conversation back: it is asked about again.
    /// Returns whether there was one.
    pub fn withdraw(&self, approval: &str) -> bool {
        self.approved().remove(approval)
    }

    /// Decides about a shell command that runs in this directory.
    pub async fn command(
        &self,
        context: &ToolContext,
        command: &str,
        dir: WorkingDir<'_>,
    ) -> Result<Clearance, ApprovalRefusal> {
        let situation = situation(context).await?;
        let dirs = dirs(context, &situation.reach, dir).await;
        let action = self.command_action(&situation.reach, dirs, command);
        self.decide(&situation, &action, asking(context)).await
    }

    /// Decides about a script of the model's in another language than the shell's.
    #[boxed]
    pub async fn script(
        &self,
        context: &ToolContext,
        code: &str,
    ) -> Result<Clearance, ApprovalRefusal> {
        let situation = situation(context).await?;
        let action = self.script_action(&situation.reach, code);
        self.decide(&situation, &action, asking(context)).await
    }

    /// Decides about writing a file, its path absolute and as the sandbox sees it.
    #[boxed]
    pub async fn write(
        &self,
        context: &ToolContext,
        path: &str,
    ) -> Result<Clearance, ApprovalRefusal> {
        let situation = situation(context).await?;
        let dirs = dirs(context, &situation.reach, WorkingDir::Session).await;
        let action = self.write_action(&situation.reach, dirs, path);
        self.decide(&situation, &action, asking(context)).await
    }

    /// Decides about a call that does something outside the sandbox and says of
    /// itself that it may destroy something there. `name` is what is approved,
    /// `text` what a person is shown of the call. No isolation makes it harmless.
    #[boxed]
    pub async fn outside(
        &self,
        context: &ToolContext,
        name: &str,
        text: &str,
    ) -> Result<Clearance, ApprovalRefusal> {
        let situation = ApprovalContext {
            reach: Reach::Host,
            automatic: false,
            attended: context.human.is_present(),
        };
        let finding = ShellFinding {
            rule: shell::OUTSIDE.0,
            reason: shell::OUTSIDE.1,
            severity: Risk::Dangerous,
            form: name.to_owned(),
            subject: None,
            definite: true,
        };
        let commands = vec![name.to_owned()];
        let action = GuardedAction {
            kind: "call",
            text: text.to_owned(),
            findings: vec![finding],
            commands,
        };
        self.decide(&situation, &action, asking(context)).await
    }

    pub(super) fn command_action(&self, reach: &Reach, dirs: Dirs, command: &str) -> GuardedAction {
        let mut path_context = self.path_context(reach, dirs);
        path_context.suspects.clone_from(&self.suspects());
        let Examined { mut findings, commands, suspects } = shell::examine(command, &path_context);
        self.suspects().extend(suspects);
        if is_isolated(reach) {
            findings.retain_mut(concerns_mounts);
        }
        GuardedAction { kind: "command", text: command.to_owned(), findings, commands }
    }

    pub(super) fn script_action(&self, reach: &Reach, code: &str) -> GuardedAction {
        let mut findings =
            shell::examine_code(code, &PathContext::new(&self.policy, reach)).findings;
        findings.retain(|finding| finding.severity > Risk::Dangerous);
        if !is_isolated(reach) {
            let weakened = *reach != Reach::Host;
            findings.push(ShellFinding {
                rule: shell::SCRIPT.0,
                reason: if weakened { shell::WEAKENED_SCRIPT } else { shell::SCRIPT.1 },
                severity: Risk::Dangerous,
                // One approval is for every script of the conversation.
                form: "any".to_owned(),
                subject: None,
                definite: true,
            });
        }
        GuardedAction { kind: "script", text: code.to_owned(), findings, commands: Vec::new() }
    }

    pub(super) fn write_action(&self, reach: &Reach, dirs: Dirs, path: &str) -> GuardedAction {
        let path_context = self.path_context(reach, dirs);
        let mut findings = shell::examine_write(path, &path_context).findings;
        if is_isolated(reach) {
            findings.retain_mut(concerns_mounts);
        }
        let text = paths::canonical(path, None, &path_context);
        GuardedAction { kind: "write", text, findings, commands: Vec::new() }
    }

    fn path_context(&self, reach: &Reach, dirs: Dirs) -> PathContext {
        let sees_files = *reach == Reach::Host;
        PathContext::new(&self.policy, reach)
            .in_dir(dirs.begins, sees_files)
            .opened_in(dirs.opened, sees_files)
    }

    pub(super) fn policy(&self) -> &ApprovalPolicy {
        &self.policy
    }

    pub(super) fn deny(&self) -> &CommandPatterns {
        &self.deny
    }

    pub(super) fn allow(&self) -> &CommandPatterns {
        &self.allow
    }

    pub(super) fn child(&self) -> Option<ChildGuard> {
        self.child
    }

    pub(super) fn is_approved(&self, key: &str) -> bool {
        self.approved().contains(key)
    }

    pub(super) fn approve(&self, keys: impl Iterator<Item = String>) {
        self.approved().extend(keys);
    }

    pub(super) fn remember(&self, key: &str) -> Result<(), String> {
        (self.remember)(key)
    }

    pub(super) fn watch_yolo(&self) -> watch::Receiver<bool> {
        self.state.yolo.subscribe()
    }

    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.state.turn.lock().await
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<String>> {
        self.state.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn approved(&self) -> MutexGuard<'_, HashSet<String>> {
        // A panic while a text was added leaves the others as they were.
        self.state.approved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a sandbox is isolated: it can change what is mounted in it, and nothing
/// else of the host.
fn is_isolated(reach: &Reach) -> bool {
    match reach {
        Reach::Contained => true,
        Reach::Mounts(openings) => {
            !openings.iter().any(|opening| matches!(opening, Opening::Weakness(_)))
        }
        Reach::Host => false,
    }
}

/// Returns whether a finding in an isolated sandbox is about mounted files, and says so in
/// its reason. Ordinary work on a mounted directory is what it was mounted for.
fn concerns_mounts(finding: &mut ShellFinding) -> bool {
    let reason = shell::MOUNT_REASONS.iter().find(|(rule, _)| *rule == finding.rule);
    if let Some((_, reason)) = reason {
        finding.reason = reason;
    }
    reason.is_some() || finding.severity == Risk::Hardline
}

/// Directories that a command is judged by; none where that cannot be found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dirs {
    /// Where it begins.
    pub(super) begins: Option<PathBuf>,
    /// Where the conversation was opened: the model can choose the other, but not this.
    pub(super) opened: Option<PathBuf>,
}

/// Returns the directories to judge by. Within walls none are needed: there only what is
/// mounted counts.
async fn dirs(context: &ToolContext, reach: &Reach, dir: WorkingDir<'_>) -> Dirs {
    if is_isolated(reach) { Dirs::default() } else { located(context, dir).await }
}

/// Finds out where a command runs, and where its conversation was opened.
async fn located(context: &ToolContext, dir: WorkingDir<'_>) -> Dirs {
    let path = match dir {
        WorkingDir::Session => ".",
        WorkingDir::Given(dir) => dir,
        WorkingDir::Unknown => return Dirs::default(),
    };
    let Ok(files) = context.sandbox.files(&context.events).await else { return Dirs::default() };
    let Ok(start) = context.sandbox.files_at_start(&context.events).await else {
        return Dirs::default();
    };
    Dirs { begins: real_path(&files, path).await, opened: real_path(&start, ".").await }
}

async fn real_path(files: &Files, path: &str) -> Option<PathBuf> {
    let found = files.stat(path, Links::Follow).await.ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&found.path)))
}

/// Finds out where something is to be done.
async fn situation(context: &ToolContext) -> Result<ApprovalContext, ApprovalRefusal> {
    let sandbox = context.sandbox.attach(&context.events).await.map_err(|error| ApprovalRefusal {
        status: RefusalStatus::Blocked,
        message: format!(
            "Nothing was done: the sandbox cannot be reached ({error}). Tell the user; `vestal doctor` \
             says what works here."
        ),
    })?;
    Ok(ApprovalContext {
        reach: sandbox.reach().await,
        automatic: sandbox.is_backend_automatic().await,
        attended: context.human.is_present(),
    })
}

fn asking(context: &ToolContext) -> ApprovalWait<'_> {
    ApprovalWait { human: &*context.human, cancel: &context.cancel, redactor: &context.redactor }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new(ApprovalPolicy::default(), Arc::new(|_| Ok(())))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("yolo", &self.is_yolo())
            .field("child", &self.child)
            .finish_non_exhaustive()
    }
}
