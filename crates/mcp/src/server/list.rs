//! Asking a server which tools it has.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::Peer;

use crate::connect::chain;
use crate::names::is_odd;
use crate::plan::Plan;
use crate::tool::Offered;
use crate::trouble::Trouble;

/// Tools that one server may have, and lists they may come in.
const MOST_TOOLS: usize = 1000;
const MOST_PAGES: usize = 100;

/// Bytes of a tool's own name: it is kept, and sent with every call.
const LONGEST_NAME: usize = 1024;

/// Asks a server for all its tools, sorted by name; those whose name has to be
/// changed come last, for others have a better right to what it is changed to.
pub(crate) async fn list(plan: &Plan, peer: &Peer<RoleClient>) -> Result<Vec<Offered>, Trouble> {
    let has_tools = peer.peer_info().is_none_or(|about| about.capabilities.tools.is_some());
    if !has_tools {
        return Ok(Vec::new());
    }
    let within: Duration = plan.connect_timeout;
    let asking = tokio::time::timeout(within, pages(plan, peer)).await;
    let late = || Trouble::Late { within, hint: " when asked for its tools".to_owned() };
    let mut tools = asking.map_err(|_| late())??;
    tools.sort_by(|a, b| (is_odd(&a.name), &a.name).cmp(&(is_odd(&b.name), &b.name)));
    tools.dedup_by(|a, b| a.name == b.name);
    Ok(tools)
}

async fn pages(plan: &Plan, peer: &Peer<RoleClient>) -> Result<Vec<Offered>, Trouble> {
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(asked)).await.map_err(|error| {
            Trouble::Failed(format!("it did not tell its tools: {}", chain(&error)))
        })?;
        let fits = |name: &str| (1..=LONGEST_NAME).contains(&name.len());
        let taken = page.tools.iter().filter(|tool| fits(&tool.name) && plan.takes(&tool.name));
        tools.extend(taken.map(Offered::new));
        // A list that comes back to where it was would never end.
        cursor = page.next_cursor.filter(|next| seen.insert(next.clone()));
        if cursor.is_none() || tools.len() >= MOST_TOOLS {
            break;
        }
    }
    tools.truncate(MOST_TOOLS);
    Ok(tools)
}
