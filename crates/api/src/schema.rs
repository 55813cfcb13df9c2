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
            &keys::GROUP,
            &dashboard::keys::GROUP,
            &vestal_board::keys::GROUP,
            &vestal_schedules::keys::GROUP,
        ])
    });
    WHOLE.clone()
}

/// Returns the names of variables that are no settings and that every process of the program reads:
/// those that choose the container engine, and those that name a proxy. Whoever starts another
/// process of the program passes them on.
pub fn inherited_variables() -> Vec<String> {
    let name = |variable: &Variable| variable.name.to_owned();
    let engine = vestal_sandbox::settings::ENGINE_VARIABLES.iter().map(name);
    let proxy = vestal_agent::settings::PROXY_VARIABLES.iter().map(name);
    // Programs look for proxies in small letters, too.
    engine.chain(proxy.flat_map(|name| [name.to_ascii_lowercase(), name])).collect()
}
