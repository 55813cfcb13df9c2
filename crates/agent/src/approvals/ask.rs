//! Putting the question to a person.

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::judge::{ApprovalContext, GuardedAction, RuleDecision, session_key};
use super::policy::{ApprovalRefusal, Clearance, RefusalStatus, approval_key};
use super::shell::ShellFinding;
use crate::human::{Approval, ApprovalRequest, Human};
use crate::redact::Redactor;
use crate::tool::ToolContext;

/// Longest approval that is worth keeping.
const LONGEST_KEY: usize = 500;

/// Who is asked, and what ends the wait.
#[derive(Clone, Copy)]
pub(super) struct ApprovalWait<'a> {
    pub(super) human: &'a dyn Human,
    pub(super) cancel: &'a CancellationToken,
    pub(super) redactor: &'a Redactor,
}

impl Guard {
    /// Asks a person about something that neither a setting nor an approval of
    /// everything allows unasked, such as to let secrets of theirs into the
    /// sandbox. Each time again, and where nobody can be asked it is refused;
    /// `kind` is what it is called then.
    #[boxed]
    pub async fn ask_person(
        &self,
        context: &ToolContext,
        kind: &str,
        request: &ApprovalRequest,
    ) -> Result<Clearance, ApprovalRefusal> {
        if self.child().is_some() || !context.human.is_present() {
            let message = format!(
                "Refused: this {kind} needs a person's approval, and no user is available to ask."
            );
            return Err(ApprovalRefusal { status: RefusalStatus::Unattended, message });
        }
        let _turn = tokio::select! {
            () = context.cancel.cancelled() => return Err(interrupted(kind)),
            turn = self.turn() => turn,
        };
        let answer = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(interrupted(kind)),
            answer = context.human.approve(request) => answer,
            () = tokio::time::sleep(self.policy().timeout) => {
                return Err(unanswered(kind, self.policy().timeout));
            }
        };
        match answer {
            Approval::Deny(why) => Err(denied(kind, why.as_deref())),
            Approval::Once | Approval::Conversation | Approval::Always => {
                let text = format!("approved by the user: {}", request.reason);
                Ok(Clearance { approved_by_person: Some(text) })
            }
        }
    }

    /// Decides, asking a person where the rules say so.
    pub(super) async fn decide(
        &self,
        situation: &ApprovalContext,
        action: &GuardedAction,
        asking: ApprovalWait<'_>,
    ) -> Result<Clearance, ApprovalRefusal> {
        match self.judge(situation, action) {
            RuleDecision::Allow => return Ok(Clearance::default()),
            RuleDecision::Refuse(refusal) => return Err(refusal),
            RuleDecision::Ask(_) => {}
        }
        // One question at a time; the answer to the one before may be the answer to this one.
        let _turn = tokio::select! {
            () = asking.cancel.cancelled() => return Err(interrupted(action.kind)),
            turn = self.turn() => turn,
        };
        match self.judge(situation, action) {
            RuleDecision::Allow => Ok(Clearance::default()),
            RuleDecision::Refuse(refusal) => Err(refusal),
            RuleDecision::Ask(open) => self.ask(&open, action, asking).await,
        }
    }

    async fn ask(
        &self,
        open: &[ShellFinding],
        action: &GuardedAction,
        asking: ApprovalWait<'_>,
    ) -> Result<Clearance, ApprovalRefusal> {
        let request = request(open, action, asking.redactor);
        let mut yolo = self.watch_yolo();
        let answer = tokio::select! {
            biased;
            () = asking.cancel.cancelled() => return Err(interrupted(action.kind)),
            _ = yolo.wait_for(|on| *on) => return Ok(Clearance::default()),
            answer = asking.human.approve(&request) => answer,
            () = tokio::time::sleep(self.policy().timeout) => {
                return Err(unanswered(action.kind, self.policy().timeout));
            }
        };
        // An interrupt while the answer was on its way counts.
        if asking.cancel.is_cancelled() {
            return Err(interrupted(action.kind));
        }
        let ApprovalRequest { reason, .. } = &request;
        let approved = |how: &str| {
            let text = format!("approved by the user {how}: this {} {reason}", action.kind);
            Ok(Clearance { approved_by_person: Some(text) })
        };
        match answer {
            Approval::Once => approved("once"),
            Approval::Always if request.may_last => {
                self.approve(open.iter().map(|finding| session_key(finding, action)));
                let kept: Result<(), String> =
                    open.iter().map(approval_key).try_for_each(|key| self.remember(&key));
                match kept {
                    Ok(()) => approved("for always"),
                    Err(why) => approved(&format!("for always, which could not be kept ({why})")),
                }
            }
            Approval::Conversation | Approval::Always => {
                self.approve(open.iter().map(|finding| session_key(finding, action)));
                approved("for this conversation")
            }
            Approval::Deny(why) => Err(denied(action.kind, why.as_deref())),
        }
    }
}

fn request(open: &[ShellFinding], action: &GuardedAction, redactor: &Redactor) -> ApprovalRequest {
    let mut reasons: Vec<&str> = open.iter().map(|finding| finding.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let keys: Vec<String> = open.iter().map(approval_key).collect();
    let pattern = keys.join("; ");
    let shown = redactor.redact(&pattern);
    // What holds a secret is not written down, and what differs each time is not worth it.
    let may_last = shown == pattern
        && open.iter().all(|finding| finding.definite)
        && keys.iter().all(|key| key.len() <= LONGEST_KEY && !key.contains('\n'));
    ApprovalRequest {
        action: redactor.redact(&action.text).into_owned(),
        reason: reasons.join("; "),
        pattern: shown.into_owned(),
        may_last,
    }
}

fn interrupted(kind: &str) -> ApprovalRefusal {
    let message = format!("Denied: the turn was interrupted before anybody approved this {kind}.");
    ApprovalRefusal { status: RefusalStatus::Denied, message }
}

fn unanswered(kind: &str, timeout: std::time::Duration) -> ApprovalRefusal {
    let message = format!(
        "Denied: nobody answered within {} s whether this {kind} may be done. Do not try it again or \
         another way unasked; continue without it, or ask the user first.",
        timeout.as_secs()
    );
    ApprovalRefusal { status: RefusalStatus::Denied, message }
}

fn denied(kind: &str, why: Option<&str>) -> ApprovalRefusal {
    let why = why.map(str::trim).filter(|why| !why.is_empty());
    let because = why.map(|why| format!(", saying: {why}")).unwrap_or_default();
    let message = format!(
        "Denied: the user does not want this {kind}{because}. Do not try it again or get the same effect \
         another way; ask the user what to do instead."
    );
    ApprovalRefusal { status: RefusalStatus::Denied, message }
}
