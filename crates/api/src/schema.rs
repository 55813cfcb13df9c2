//! The schema of the whole program, composed once for all front ends.

use std::sync::LazyLock;

use vestal_config::{Schema, Variable};

use crate::{dashboard, keys};

/// Returns the schema of all settings: what every owner declares, in the order in which it is
/// documented.
pub fn schema() -> Schema {
    static WHOLE: LazyLock<Schema> = LazyLock::new(|| {
        vestal_agent::schema().with([
            &vestal_memory::keys::GROUP,
            &vestal_skills::keys::GROUP,
            &vestal_mcp::keys::GROUP,
            &vestal_web::keys::GROUP,
            &keys::GROUP,
            &dashboard::keys::GROUP,
            &vestal_board::keys::GROUP,
            &vestal_schedules::keys::GROUP,
        ])
    });
    WHOLE.clone()
}

/// Returns the names of variables that are no settings and that every process of the program reads:
/// those that choose the container engine, and those that name a proxy. A process that
/// starts another process of the program passes them on.
pub fn inherited_variables() -> Vec<String> {
    let name = |variable: &Variable| variable.name.to_owned();
    let engine = vestal_sandbox::settings::ENGINE_VARIABLES.iter().map(name);
    let proxy = vestal_agent::settings::PROXY_VARIABLES.iter().map(name);
    // Programs look for proxies in small letters, too.
    engine.chain(proxy.flat_map(|name| [name.to_ascii_lowercase(), name])).collect()
}

#[cfg(test)]
mod tests {
    use vestal_config::{AnyKey, ChangedBy};

    use super::*;

    /// Whoever adds a key here says that it neither guards the machine nor names what runs on it or
    /// where keys are sent.
    const OPEN: &[&str] = &[
        "agent.api_max_retries",
        "agent.clarify_timeout",
        "agent.max_turns",
        "agent.request_timeout",
        "code_execution.max_tool_calls",
        "code_execution.timeout",
        "compression.enabled",
        "compression.protect_first_n",
        "compression.protect_last_n",
        "compression.target_ratio",
        "compression.threshold",
        "delegation.max_concurrent_children",
        "delegation.max_iterations",
        "delegation.max_spawn_depth",
        "delegation.max_summary_chars",
        "display.bell",
        "display.busy_input_mode",
        "display.show_reasoning",
        "model.context_length",
        "model.default",
        "model.max_output_tokens",
        "model.reasoning_effort",
        "model.thinking_budget",
        "tool_loop_guardrails.stop_after",
        "tool_loop_guardrails.warn_after",
        "tool_output.max_bytes",
        "tool_output.max_line_length",
        "tool_output.max_lines",
    ];

    #[test]
    fn clients_over_a_network_change_what_is_declared_harmless_and_nothing_else() {
        let schema = schema();
        let open = schema.keys().filter(|key| key.changed_by() == ChangedBy::Clients);
        let mut open: Vec<&str> = open.map(AnyKey::name).collect();
        open.sort_unstable();
        assert_eq!(open, OPEN);
    }
}
