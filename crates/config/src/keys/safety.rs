//! What the agent may do unasked, and what it must not repeat.

use crate::key::Protection;
use crate::kinds::DAY;
use crate::kinds::{ApprovalMode, Patterns, Range, Seconds, Unattended};
use crate::schema::Group;

crate::keys! {
    /// Whether a dangerous command is asked about. What is never allowed and what
    /// `approvals.deny` names is refused either way.
    APPROVALS_MODE: ApprovalMode = "approvals.mode" {
        default: ApprovalMode::Manual,
        limits: (),
        env: ["VESTAL_APPROVALS_MODE"],
        protection: Protection::Guards,
    }

    /// Time that the answer may take. After it the command is not run.
    APPROVALS_TIMEOUT: Seconds = "approvals.timeout" {
        default: Seconds::new(60),
        limits: Range { min: 1, max: DAY },
        env: ["VESTAL_APPROVALS_TIMEOUT"],
    }

    /// Commands that are never run: patterns in which `*` stands for anything.
    APPROVALS_DENY: Patterns = "approvals.deny" {
        default: Patterns::EMPTY,
        limits: (),
        env: ["VESTAL_APPROVALS_DENY"],
        protection: Protection::Guards,
    }

    /// What happens to a dangerous command when nobody can be asked.
    APPROVALS_UNATTENDED: Unattended = "approvals.unattended" {
        default: Unattended::Deny,
        limits: (),
        env: ["VESTAL_APPROVALS_UNATTENDED"],
        protection: Protection::Guards,
    }

    /// Commands that are run without being asked about: what was answered with "always" is added
    /// here.
    COMMAND_ALLOWLIST: Patterns = "command_allowlist" {
        default: Patterns::EMPTY,
        limits: (),
        env: ["VESTAL_COMMAND_ALLOWLIST"],
        travels: false,
    }

    /// Whether commands of delegated tasks are run without being asked about. What is never
    /// allowed stays refused.
    DELEGATION_SUBAGENT_AUTO_APPROVE: bool = "delegation.subagent_auto_approve" {
        default: false,
        limits: (),
        env: ["VESTAL_DELEGATION_SUBAGENT_AUTO_APPROVE"],
        protection: Protection::Guards,
    }

    /// Whether what looks like a secret is taken out of what the model is given.
    SECURITY_REDACT_SECRETS: bool = "security.redact_secrets" {
        default: true,
        limits: (),
        env: ["VESTAL_REDACT_SECRETS"],
        protection: Protection::Guards,
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group { reserved: RESERVED, ..Group::of(KEYS) };

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "approvals.cron_mode",
    "approvals.destructive_slash_confirm",
    "approvals.mcp_reload_confirm",
    "security.allow_lazy_installs",
];
