//! In which order the rules apply.

use vestal_sandbox::Reach;

use super::guard::Guard;
use super::policy::{ApprovalRefusal, GuardMode, RefusalStatus, Unattended, approval_key};
use super::shell::{Risk, ShellFinding};

/// Where something is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApprovalContext {
    /// What of the host is within reach.
    pub(super) reach: Reach,
    /// Whether nobody chose the backend.
    pub(super) automatic: bool,
    /// Whether a person can be asked.
    pub(super) attended: bool,
}

/// Something that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GuardedAction {
    /// What it is called: "command", "script", "write".
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// What is wrong with it.
    pub(super) findings: Vec<ShellFinding>,
    pub(super) commands: Vec<String>,
}

/// What the rules say before anybody is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleDecision {
    /// It may be done.
    Allow,
    /// It may not be done.
    Refuse(ApprovalRefusal),
    /// A person has to decide about these.
    Ask(Vec<ShellFinding>),
}

impl ApprovalContext {
    /// Reports whether commands run on the host without anybody having wanted that.
    fn is_unchosen_host(&self) -> bool {
        self.automatic && self.reach == Reach::Host
    }
}

impl Guard {
    /// Judges by the rules alone.
    pub(super) fn judge(
        &self,
        situation: &ApprovalContext,
        action: &GuardedAction,
    ) -> RuleDecision {
        let confined = situation.reach == Reach::Contained;
        // In isolation too: what it destroys there is meant to last.
        if let Some(finding) = blocking(situation, action) {
            return RuleDecision::Refuse(blocked(finding, action.kind));
        }
        if let Some(pattern) = self.denied(action) {
            let message = format!(
                "Blocked: this {} matches {pattern:?} in the setting approvals.deny, which no approval \
                 lifts. Do not try to get the same effect another way; tell the user what you wanted to \
                 do and why.",
                action.kind
            );
            return RuleDecision::Refuse(ApprovalRefusal {
                status: RefusalStatus::Blocked,
                message,
            });
        }
        if confined || self.is_yolo() {
            return RuleDecision::Allow;
        }
        let open = self.unapproved(action);
        let Some(first) = open.first() else {
            return RuleDecision::Allow;
        };
        let unchosen = situation.is_unchosen_host();
        if self.policy().mode == GuardMode::Off && !unchosen {
            return RuleDecision::Allow;
        }
        if let Some(child) = self.child() {
            return if child.approves_by_itself && !unchosen {
                RuleDecision::Allow
            } else {
                RuleDecision::Refuse(childs(first, action.kind))
            };
        }
        if situation.attended {
            return RuleDecision::Ask(open);
        }
        if self.unattended() == Unattended::Allow && !unchosen {
            return RuleDecision::Allow;
        }
        RuleDecision::Refuse(unattended(first, action.kind, unchosen))
    }

    /// Returns the pattern that forbids something.
    fn denied(&self, action: &GuardedAction) -> Option<&str> {
        let deny = self.deny();
        let texts = action.commands.iter().map(String::as_str);
        std::iter::once(action.text.trim()).chain(texts).find_map(|text| deny.matching(text))
    }

    /// Returns what nobody has approved yet.
    fn unapproved(&self, action: &GuardedAction) -> Vec<ShellFinding> {
        if self.allow().has(action.text.trim()) {
            return Vec::new();
        }
        let approved = |finding: &&ShellFinding| {
            self.allow().approves(finding) || self.is_approved(&session_key(finding, action))
        };
        action.findings.iter().filter(|finding| !approved(finding)).cloned().collect()
    }
}

/// Returns what an approval for a conversation is kept as: where the form of a
/// finding does not say everything, the whole command does.
pub(super) fn session_key(finding: &ShellFinding, action: &GuardedAction) -> String {
    if finding.definite {
        approval_key(finding)
    } else {
        format!("{}:{}", finding.rule, action.text)
    }
}

fn blocking<'a>(
    situation: &ApprovalContext,
    action: &'a GuardedAction,
) -> Option<&'a ShellFinding> {
    action.findings.iter().find(|finding| match finding.severity {
        Risk::Hardline => true,
        Risk::BlockedOnHost => situation.reach == Reach::Host,
        Risk::Dangerous => false,
    })
}

fn blocked(finding: &ShellFinding, kind: &str) -> ApprovalRefusal {
    let ShellFinding { reason, rule, .. } = finding;
    let instead = if finding.severity == Risk::BlockedOnHost {
        "Ask the user to run it themselves, or to give the account the right to do it without a password."
    } else {
        "Ask the user to do it themselves if it is really needed."
    };
    let message = format!(
        "Blocked: this {kind} {reason} (rule {rule}). No approval or setting lifts this rule. Do not \
         try to get the same effect another way. {instead}"
    );
    ApprovalRefusal { status: RefusalStatus::Blocked, message }
}

fn childs(finding: &ShellFinding, kind: &str) -> ApprovalRefusal {
    let reason = finding.reason;
    let message = format!(
        "Denied: this {kind} {reason}, and a subagent cannot ask for approval. Do the part that needs \
         no approval and report what is left, so that the parent can ask the user. (The setting \
         delegation.subagent_auto_approve allows it.)"
    );
    ApprovalRefusal { status: RefusalStatus::Denied, message }
}

fn unattended(finding: &ShellFinding, kind: &str, unchosen: bool) -> ApprovalRefusal {
    let reason = finding.reason;
    let remedy = if unchosen {
        "commands run on this machine without isolation, which was not chosen explicitly: choose a backend with \
         terminal.backend, approve the command with command_allowlist, or pass --yolo"
    } else {
        "set approvals.unattended to allow, add the command to command_allowlist, or pass --yolo"
    };
    let message = format!(
        "Refused: this {kind} {reason}, which needs approval, and no user is available to give it. Go on \
         without it if you can, and say in your answer what was left undone and that the user can \
         change this: {remedy}."
    );
    ApprovalRefusal { status: RefusalStatus::Unattended, message }
}
