//! How the agent works through a turn, what it may do unasked, and what it must not repeat.

use std::borrow::Cow;

use vestal_config::{
    ByteSize, ChangedBy, Count, CountOrNone, DAY, Fraction, Group, LineMode, Names, Patterns,
    Protection, Range, Seconds, SecondsOrNever, Text, TextLimits,
};

use super::hooks::HookList;

vestal_config::choices! {
    /// Whether dangerous commands are asked about.
    ApprovalMode, "known approval mode", {
        /// A person is asked.
        Manual = "manual",
        /// Nobody is asked. What is never allowed stays refused.
        Off = "off",
    }
}

vestal_config::choices! {
    /// What happens to a dangerous command when nobody can be asked.
    Unattended, "known answer to unattended approvals", {
        /// It is not run.
        Deny = "deny",
        /// It is run.
        Allow = "allow",
    }
}

const ALL_TOOLSETS: &[Cow<'static, str>] = &[Cow::Borrowed("all")];

vestal_config::keys! {
    /// Requests to the model that one turn may make.
    AGENT_MAX_TURNS: Count = "agent.max_turns" {
        default: Count::new(90),
        limits: Range { min: 1, max: 100_000 },
        env: ["VESTAL_MAX_TURNS"],
        changed_by: ChangedBy::Clients,
    }

    /// Times that a request is made again when the provider is busy or not ready (such as 429 and
    /// 503): eight times take two to four minutes. After other failures that may pass, and while
    /// there is a fallback to ask, it is made again three times at most.
    AGENT_API_MAX_RETRIES: Count = "agent.api_max_retries" {
        default: Count::new(8),
        limits: Range { min: 0, max: 100 },
        env: ["VESTAL_API_MAX_RETRIES"],
        changed_by: ChangedBy::Clients,
    }

    /// Time without a byte from the provider after which a request has failed.
    AGENT_REQUEST_TIMEOUT: Seconds = "agent.request_timeout" {
        default: Seconds::new(120),
        limits: Range { min: 1, max: DAY },
        env: ["VESTAL_REQUEST_TIMEOUT"],
        changed_by: ChangedBy::Clients,
    }

    /// Text for the agent besides its own instructions.
    AGENT_SYSTEM_PROMPT: Text = "agent.system_prompt" {
        default: Text::EMPTY,
        limits: TextLimits { max_bytes: 256 << 10, lines: LineMode::Many },
        env: ["VESTAL_SYSTEM_PROMPT"],
    }

    /// Time that the answer to a question of the agent may take. After it the agent goes on
    /// without.
    AGENT_CLARIFY_TIMEOUT: SecondsOrNever = "agent.clarify_timeout" {
        default: SecondsOrNever::After(Seconds::new(3600)),
        limits: Range { min: 1, max: 30 * DAY },
        env: ["VESTAL_CLARIFY_TIMEOUT"],
        changed_by: ChangedBy::Clients,
    }

    /// Toolsets that the agent has. `all` stands for every one.
    TOOLSETS: Names = "toolsets" {
        default: Names::declared(ALL_TOOLSETS),
        limits: (),
        env: ["VESTAL_TOOLSETS"],
    }

    /// Toolsets that the agent does not have, whatever `toolsets` says.
    AGENT_DISABLED_TOOLSETS: Names = "agent.disabled_toolsets" {
        default: Names::EMPTY,
        limits: (),
        env: ["VESTAL_DISABLED_TOOLSETS"],
    }

    /// Tools that the agent does not have, whatever toolset they are in.
    AGENT_DISABLED_TOOLS: Names = "agent.disabled_tools" {
        default: Names::EMPTY,
        limits: (),
        env: ["VESTAL_DISABLED_TOOLS"],
    }

    /// Whether a conversation that outgrows the model is summed up to go on.
    COMPRESSION_ENABLED: bool = "compression.enabled" {
        default: true,
        limits: (),
        env: ["VESTAL_COMPRESSION_ENABLED"],
        changed_by: ChangedBy::Clients,
    }

    /// Share of the model's context, less what instructions and tools take, at which a conversation
    /// is summed up.
    COMPRESSION_THRESHOLD: Fraction = "compression.threshold" {
        default: Fraction::from_thousandths(500),
        limits: Range { min: 100, max: 950 },
        env: ["VESTAL_COMPRESSION_THRESHOLD"],
        changed_by: ChangedBy::Clients,
    }

    /// Share of what was there that is left after summing up.
    COMPRESSION_TARGET_RATIO: Fraction = "compression.target_ratio" {
        default: Fraction::from_thousandths(200),
        limits: Range { min: 50, max: 800 },
        env: ["VESTAL_COMPRESSION_TARGET_RATIO"],
        changed_by: ChangedBy::Clients,
    }

    /// First messages of a conversation that are kept as they are.
    COMPRESSION_PROTECT_FIRST_N: Count = "compression.protect_first_n" {
        default: Count::new(3),
        limits: Range { min: 0, max: 1000 },
        env: ["VESTAL_COMPRESSION_PROTECT_FIRST_N"],
        changed_by: ChangedBy::Clients,
    }

    /// Last messages of a conversation that are kept as they are.
    COMPRESSION_PROTECT_LAST_N: Count = "compression.protect_last_n" {
        default: Count::new(20),
        limits: Range { min: 1, max: 10_000 },
        env: ["VESTAL_COMPRESSION_PROTECT_LAST_N"],
        changed_by: ChangedBy::Clients,
    }

    /// Requests to the model that one delegated task may make.
    DELEGATION_MAX_ITERATIONS: Count = "delegation.max_iterations" {
        default: Count::new(50),
        limits: Range { min: 1, max: 100_000 },
        env: ["VESTAL_DELEGATION_MAX_ITERATIONS"],
        changed_by: ChangedBy::Clients,
    }

    /// Delegated tasks that run at a time.
    DELEGATION_MAX_CONCURRENT_CHILDREN: Count = "delegation.max_concurrent_children" {
        default: Count::new(3),
        limits: Range { min: 1, max: 100 },
        env: ["VESTAL_DELEGATION_MAX_CONCURRENT_CHILDREN"],
        changed_by: ChangedBy::Clients,
    }

    /// How deep delegated tasks may delegate: 1 when only the agent itself may, 0 when nobody may.
    DELEGATION_MAX_SPAWN_DEPTH: Count = "delegation.max_spawn_depth" {
        default: Count::new(1),
        limits: Range { min: 0, max: 10 },
        env: ["VESTAL_DELEGATION_MAX_SPAWN_DEPTH"],
        changed_by: ChangedBy::Clients,
    }

    /// Characters of a delegated task's report that the agent is given.
    DELEGATION_MAX_SUMMARY_CHARS: Count = "delegation.max_summary_chars" {
        default: Count::new(24_000),
        limits: Range { min: 200, max: 10_000_000 },
        env: ["VESTAL_DELEGATION_MAX_SUMMARY_CHARS"],
        changed_by: ChangedBy::Clients,
    }

    /// Bytes of a tool's result that the model is given. Of longer output of a command it gets the beginning and the end, and reads the rest in the job's log.
    TOOL_OUTPUT_MAX_BYTES: ByteSize = "tool_output.max_bytes" {
        default: ByteSize::new(50_000),
        limits: Range { min: 1000, max: 64 << 20 },
        env: ["VESTAL_TOOL_OUTPUT_MAX_BYTES"],
        changed_by: ChangedBy::Clients,
    }

    /// Lines of a tool's result that the model is given.
    TOOL_OUTPUT_MAX_LINES: Count = "tool_output.max_lines" {
        default: Count::new(2000),
        limits: Range { min: 10, max: 1_000_000 },
        env: ["VESTAL_TOOL_OUTPUT_MAX_LINES"],
        changed_by: ChangedBy::Clients,
    }

    /// Characters of a line of a file that the model is given.
    TOOL_OUTPUT_MAX_LINE_LENGTH: Count = "tool_output.max_line_length" {
        default: Count::new(2000),
        limits: Range { min: 80, max: 1_000_000 },
        env: ["VESTAL_TOOL_OUTPUT_MAX_LINE_LENGTH"],
        changed_by: ChangedBy::Clients,
    }

    /// The same call with the same outcome so many times in a row: the model is told.
    TOOL_LOOP_WARN_AFTER: CountOrNone = "tool_loop_guardrails.warn_after" {
        default: CountOrNone::new(3),
        limits: Range { min: 2, max: 1000 },
        env: ["VESTAL_TOOL_LOOP_WARN_AFTER"],
        changed_by: ChangedBy::Clients,
    }

    /// The same call with the same outcome so many times in a row: the turn ends.
    TOOL_LOOP_STOP_AFTER: CountOrNone = "tool_loop_guardrails.stop_after" {
        default: CountOrNone::new(8),
        limits: Range { min: 2, max: 1000 },
        env: ["VESTAL_TOOL_LOOP_STOP_AFTER"],
        changed_by: ChangedBy::Clients,
    }

    /// Time that a script of the agent may take.
    CODE_EXECUTION_TIMEOUT: Seconds = "code_execution.timeout" {
        default: Seconds::new(300),
        limits: Range { min: 1, max: 7 * DAY },
        env: ["VESTAL_CODE_EXECUTION_TIMEOUT"],
        changed_by: ChangedBy::Clients,
    }

    /// Tool calls that one script of the agent may make.
    CODE_EXECUTION_MAX_TOOL_CALLS: Count = "code_execution.max_tool_calls" {
        default: Count::new(50),
        limits: Range { min: 0, max: 100_000 },
        env: ["VESTAL_CODE_EXECUTION_MAX_TOOL_CALLS"],
        changed_by: ChangedBy::Clients,
    }

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

    /// What happens to a dangerous command in a scheduled run (`vestal cron`), whatever
    /// `approvals.unattended` says.
    APPROVALS_CRON_MODE: Unattended = "approvals.cron_mode" {
        default: Unattended::Deny,
        limits: (),
        env: ["VESTAL_APPROVALS_CRON_MODE"],
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

    /// Commands on this machine, in the order in which they run, before a tool is called. Each reads
    /// the call as JSON on its standard input and can refuse it (exit code 2, or an answer in JSON),
    /// have a person asked or add a note. One that fails or hangs refuses the call, unless
    /// `on_failure` is `allow`.
    HOOKS_BEFORE_TOOL: HookList = "hooks.before_tool" {
        default: HookList::EMPTY,
        limits: (),
        env: ["VESTAL_HOOKS_BEFORE_TOOL"],
        protection: Protection::Guards,
        travels: false,
    }
    /// Commands on this machine, in the order in which they run, after a tool was called. Each reads
    /// the call and its result as JSON on its standard input and can add a note for the model.
    HOOKS_AFTER_TOOL: HookList = "hooks.after_tool" {
        default: HookList::EMPTY,
        limits: (),
        env: ["VESTAL_HOOKS_AFTER_TOOL"],
        protection: Protection::Guards,
        travels: false,
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
pub(super) static GROUP: Group = Group { reserved: RESERVED, ..Group::of(KEYS) };

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "agent.environment_probe",
    "agent.gateway_timeout",
    "agent.gateway_timeout_warning",
    "agent.verify_on_stop",
    "compression.abort_on_summary_failure",
    "compression.in_place",
    "delegation.child_timeout_seconds",
    "tool_loop_guardrails.hard_stop_enabled",
    "checkpoints",
    "file_read_max_chars",
    "session_reset",
    "approvals.destructive_slash_confirm",
    "approvals.mcp_reload_confirm",
    "security.allow_lazy_installs",
];
