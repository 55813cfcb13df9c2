//! `vestal conversations list`.

use clap::Args;
use jiff::Timestamp;
use vestal_api::ConversationView;
use vestal_conversations::{Filter, Store, Summary};

use super::print;
use super::reading::cost;
use crate::console::{Cell, DIM, Table, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The last used come first. A cost with a + is more: that of some calls is not known.

Examples:
  vestal conversations list
  vestal conversations list --json --limit 1000 | jq 'map(.usage.cost_usd) | add'";

/// Characters shown of how a conversation without a title begins.
const BEGINNING: usize = 60;

/// Lists conversations, the last used first.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListArgs {
    /// At most so many.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,

    /// Also those that were given a part of another's work.
    #[arg(short, long)]
    all: bool,

    /// Only those that have not ended.
    #[arg(long)]
    running: bool,

    /// Only those made by this source, such as `cli`.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: ListArgs,
) -> Result<Exit, Failure> {
    let filter = Filter {
        // Whoever asks for delegated ones by their source means them.
        include_delegated: args.all || args.source.is_some(),
        source: args.source,
        before: None,
        limit: args.limit,
        include_ended: !args.running,
    };
    let summaries = match store {
        Some(store) => store.list(&filter).await?,
        None => Vec::new(),
    };
    if args.json {
        let views: Vec<ConversationView> = summaries.iter().map(Into::into).collect();
        print(context, &views)?;
        return Ok(Exit::Success);
    }
    if summaries.is_empty() {
        context.console.note("there are no conversations; `vestal chat -q PROMPT` begins one");
        return Ok(Exit::Success);
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["ID", "TITLE", "USED", "MESSAGES", "MODEL", "COST"]);
    for summary in &summaries {
        table.row(row(summary, now));
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

fn row(summary: &Summary, now: Timestamp) -> Vec<Cell> {
    let conversation = &summary.conversation;
    let title = match &conversation.title {
        Some(title) => Cell::from(title),
        None => Cell::styled(beginning(&summary.preview), DIM),
    };
    vec![
        conversation.id.short().into(),
        title,
        text::ago(conversation.updated_at, now).into(),
        summary.messages.to_string().into(),
        conversation.model.as_str().into(),
        cost(&summary.totals).into(),
    ]
}

/// Returns how a conversation without a title begins, no longer than a title
/// would be.
fn beginning(preview: &str) -> String {
    let mut characters = preview.chars();
    let shown: String = characters.by_ref().take(BEGINNING).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}
