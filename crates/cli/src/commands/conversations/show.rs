//! `vestal conversations show`.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use vestal_api::ConversationDetailsView;
use vestal_conversations::{Standing, Store, Stored, Summary};

use super::reading::{Detail, Passage, cost, passage};
use super::{find, print};
use crate::console::{BOLD, Console, DIM, GREEN, YELLOW, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal conversations show k3f9ab
  vestal conversations show 'fix the build' --json | jq -r '.history[].message.role'";

/// Shows what was said in a conversation.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,

    /// Shows tool calls and their output as a whole.
    #[arg(long)]
    full: bool,

    /// Shows also what was taken back.
    #[arg(short, long)]
    all: bool,

    /// Prints a JSON object with everything there is.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: &ShowArgs,
) -> Result<Exit, Failure> {
    let (store, id) = find(store, &args.id).await?;
    let summary = store.summary(&id).await?;
    let history = store.history(&id).await?;
    if args.json {
        let system_prompt = store.system_prompt(&id).await?;
        let conversation = (&summary).into();
        print(context, &ConversationDetailsView { conversation, system_prompt, history })?;
        return Ok(Exit::Success);
    }
    let console = context.console;
    let now = Timestamp::now();
    let mut out = heading(console, &summary, now);
    let detail = if args.full { Detail::Full } else { Detail::Short };
    for stored in history.iter().filter(|stored| args.all || stored.standing != Standing::Undone) {
        out.push('\n');
        out.push_str(&shown(console, stored, detail));
    }
    console.write(&out)?;
    Ok(Exit::Success)
}

fn heading(console: Console, summary: &Summary, now: Timestamp) -> String {
    let conversation = &summary.conversation;
    let title = conversation.title.as_deref().unwrap_or("(no title)");
    let mut facts = vec![
        conversation.id.to_string(),
        text::printable(&conversation.model),
        format!("begun {}", text::ago(conversation.started_at, now)),
        text::count(summary.messages, "message"),
        text::count(summary.tool_calls, "tool call"),
        format!("cost {}", cost(&summary.totals)),
    ];
    if let Some(parent) = conversation.parent.as_ref().and_then(|parent| parent.id.as_ref()) {
        facts.push(format!("from {parent}"));
    }
    if let Some(ended) = &conversation.ended {
        facts.push(format!("ended {}", text::printable(&ended.reason)));
    }
    let title = console.paint(BOLD, &text::printable(title));
    format!("{title}\n{}\n", console.paint(DIM, &facts.join(" · ")))
}

fn shown(console: Console, stored: &Stored, detail: Detail) -> String {
    let Passage { speaker, remark, words, calls } = passage(stored, detail);
    let mut out = format!(
        "{} {}",
        console.paint(GREEN, &text::printable(&speaker)),
        console.paint(DIM, &format!("#{}", stored.seq))
    );
    if let Some(remark) = remark {
        out.push_str(&console.paint(YELLOW, &format!(" ({remark})")));
    }
    out.push('\n');
    for line in text::printable_lines(&words).lines() {
        out.push_str(if line.is_empty() { "" } else { "  " });
        out.push_str(line);
        out.push('\n');
    }
    for call in calls {
        // Writing to a string cannot fail.
        writeln!(out, "  {} {}", console.paint(DIM, "→"), text::printable(&call)).ok();
    }
    out
}
