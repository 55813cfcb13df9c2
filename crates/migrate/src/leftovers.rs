//! What of the other home does not come, so that nobody has to find out.

use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, PlanItem};

/// Names in a home, and why they do not come.
const LEFT: [(&str, &str); 17] = [
    ("auth.json", "logins of that program; log in again, or put keys into .env"),
    ("mcp-tokens", "logins of MCP servers; log in again"),
    ("pairing", "messengers are not served here"),
    ("hooks", "hooks of that program are not run here"),
    ("plugins", "plugins of that program are not loaded here"),
    ("scripts", "scripts of the host; copy them into a sandbox: vestal cp"),
    ("skins", "has no counterpart here"),
    ("plans", "plain files; copy them where you want them"),
    ("workspace", "plain files; copy them into a sandbox: vestal cp"),
    ("checkpoints", "copies of files that only that program can read"),
    ("webhook_subscriptions.json", "has no counterpart here"),
    ("processes.json", "processes belong to the program that started them"),
    ("channel_directory.json", "messengers are not served here"),
    ("kanban/workspaces", "directories of running tasks; their tasks come"),
    ("cron/output", "output of earlier runs; it stays there"),
    ("sessions", "copies of sessions; the sessions themselves come from state.db"),
    ("image_cache", "a cache"),
];

/// Says what there is and does not come.
pub(crate) fn plan(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    for (name, reason) in LEFT {
        let is_empty = matches!(place.source.list(name), Ok(entries) if entries.is_empty());
        if place.source.has(name) && !is_empty {
            let item = PlanItem::new(ItemKind::Other, place.name, name, Action::Leave, reason);
            items.push(item);
        }
    }
}

/// Says what becomes of sandboxes: nothing, because no guest runs in them. Containers can be copied,
/// and are not named here where they are.
pub(crate) fn plan_containers(place: &MigratedHome<'_>, copies: bool, items: &mut Vec<PlanItem>) {
    for backend in ["docker", "singularity", "ssh", "modal", "daytona"] {
        if backend == "docker" && copies {
            continue;
        }
        let reason = if backend == "docker" {
            "left alone; with --containers, a copy of its container becomes a sandbox"
        } else {
            "left alone: no guest of ours runs in it; copy its files with vestal cp"
        };
        let dir = format!("sandboxes/{backend}");
        let tasks = place.source.list(&dir).unwrap_or_default();
        for (task, _) in tasks {
            let from = format!("{dir}/{task}");
            let item = PlanItem::new(ItemKind::Container, place.name, from, Action::Leave, reason);
            items.push(item);
        }
    }
}
