//! The environment of a worker.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use vestal_config::{ENGINE_VARIABLES, Environment, PROXY_VARIABLES};

use crate::launch::Order;

/// What every program needs to find its way, and no secret.
const COMMON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NO_PROXY",
];

/// The name of the variable that has the task of a worker.
const TASK: &str = "VESTAL_KANBAN_TASK";
/// The name of the variable that has the run of a worker.
const RUN: &str = "VESTAL_KANBAN_RUN";

/// Returns the environment of a worker: what is allowed of the dispatcher's, and
/// what the worker has to know. Secrets of the dispatcher are not in it: a
/// worker has those of its own profile.
pub(crate) fn environment(
    dispatcher: &Environment,
    passthrough: &[String],
    root: &Path,
    order: &Order,
) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = dispatcher
        .iter()
        .filter(|(name, _)| name.to_str().is_some_and(|name| is_allowed(name, passthrough)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut set = |name: &str, value: &OsStr| {
        variables.insert(name.into(), value.to_owned());
    };
    set("VESTAL_HOME", root.as_os_str());
    set("VESTAL_PROFILE", order.profile.as_str().as_ref());
    set(TASK, order.task.as_str().as_ref());
    set(RUN, order.run.to_string().as_ref());
    set("VESTAL_KANBAN_BOARD", order.board.as_ref());
    set("VESTAL_KANBAN_HOST", order.host.as_str().as_ref());
    // A worker that believes in a shorter lease than it has renews it too often,
    // and one that believes in a longer one loses it.
    set("VESTAL_KANBAN_LEASE_SECONDS", order.lease.as_secs().max(1).to_string().as_ref());
    // What a worker says about its own failure is what its dispatcher would say.
    if let Some(failures) = &order.failures {
        for (name, value) in [
            ("VESTAL_KANBAN_FAILURE_LIMIT", u64::from(failures.budgets.crashed)),
            ("VESTAL_KANBAN_NO_REPORT_LIMIT", u64::from(failures.budgets.no_report)),
            ("VESTAL_KANBAN_RETRY_BACKOFF_SECONDS", failures.backoff.first.as_secs()),
            ("VESTAL_KANBAN_RATE_LIMIT_COOLDOWN_SECONDS", failures.rate_limit_cooldown.as_secs()),
        ] {
            set(name, value.to_string().as_ref());
        }
    }
    if let Some(path) = &order.place.path {
        set("VESTAL_KANBAN_WORKSPACE", path.as_os_str());
    }
    if let Some(branch) = &order.place.branch {
        set("VESTAL_KANBAN_BRANCH", branch.as_ref());
    }
    if let Some(tenant) = &order.tenant {
        set("VESTAL_TENANT", tenant.as_ref());
    }
    variables
}

/// Returns what tells processes of a run from all others, as they were started.
pub(crate) fn marks(task: &vestal_board::TaskId, run: vestal_board::RunId) -> Vec<OsString> {
    vec![format!("{TASK}={task}").into(), format!("{RUN}={run}").into()]
}

fn is_allowed(name: &str, passthrough: &[String]) -> bool {
    let is_any = |variables: &[vestal_config::Variable]| {
        variables.iter().any(|variable| variable.name.eq_ignore_ascii_case(name))
    };
    COMMON.contains(&name)
        || name == "no_proxy"
        || name.starts_with("LC_")
        || ENGINE_VARIABLES.iter().any(|variable| variable.name == name)
        || is_any(PROXY_VARIABLES)
        || passthrough.iter().any(|allowed| allowed == name)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
