//! Names that mean something to Vestal, but not in this version.
//!
//! A file written for a fuller setup is told so, instead of being told that it
//! is full of mistakes.

/// Backends that are on the way.
pub(crate) const BACKENDS: &[&str] =
    &["ssh", "apptainer", "singularity", "modal", "daytona", "kubernetes"];

/// Keys of the section `terminal` that belong to backends and features on the way.
const TERMINAL: &[&str] = &[
    "modal_mode",
    "daemon_term_grace_seconds",
    "credential_files",
    "home_mode",
    "shell_init_files",
    "auto_source_bashrc",
    "singularity_image",
    "modal_image",
    "daytona_image",
    "ssh_host",
    "ssh_user",
    "ssh_port",
    "ssh_key",
    "persistent_shell",
    "sudo_password",
];

/// Sections that belong to features on the way.
const SECTIONS: &[&str] = &["checkpoints", "file_read_max_chars", "gateway", "session_reset"];

/// Keys of sections that exist which belong to features on the way.
const IN_SECTIONS: &[&str] = &[
    "agent.environment_probe",
    "agent.gateway_timeout",
    "agent.gateway_timeout_warning",
    "agent.restart_drain_timeout",
    "agent.verify_on_stop",
    "approvals.cron_mode",
    "approvals.destructive_slash_confirm",
    "approvals.mcp_reload_confirm",
    "compression.abort_on_summary_failure",
    "compression.in_place",
    "delegation.child_timeout_seconds",
    "display.bell_on_complete",
    "display.busy_input_mode",
    "display.compact",
    "display.file_mutation_verifier",
    "display.interface",
    "display.personality",
    "display.resume_display",
    "display.skin",
    "display.streaming",
    "display.tool_progress",
    "display.turn_completion_explainer",
    "kanban.auto_decompose",
    "kanban.auto_decompose_per_tick",
    "kanban.auto_promote_children",
    "kanban.auto_subscribe_on_create",
    "kanban.dispatch_in_gateway",
    "kanban.orchestrator_profile",
    "memory.flush_min_turns",
    "memory.nudge_interval",
    "memory.provider",
    "security.allow_lazy_installs",
    "tool_loop_guardrails.hard_stop_enabled",
];

/// Reports whether a key of `config.yaml` is known but without meaning yet.
pub(crate) fn is_reserved_key(name: &str) -> bool {
    let section = name.split('.').next().unwrap_or(name);
    SECTIONS.contains(&section)
        || IN_SECTIONS.contains(&name)
        || name
            .strip_prefix("terminal.")
            .is_some_and(|key| TERMINAL.contains(&key.split('.').next().unwrap_or(key)))
}

/// Reports whether a variable is known but without meaning yet.
pub(crate) fn is_reserved_variable(name: &str) -> bool {
    name.strip_prefix("TERMINAL_")
        .is_some_and(|rest| TERMINAL.contains(&rest.to_ascii_lowercase().as_str()))
}
