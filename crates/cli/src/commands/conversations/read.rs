//! `vestal conversations list`, `search` and `show`.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{ConversationDetailsView, ConversationView, HitView, dollars};
use vestal_conversations::{
    ConversationFilter, ConversationStore, ConversationSummary, Hit, MessageAuthor, MessageKind,
    MessageStanding, SearchScope, Stored, Totals,
};
use vestal_model::{Message, Part, ToolCall};

use super::{find, print};
use crate::console::{BOLD, Cell, Console, DIM, GREEN, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const LIST_HELP: &str = "\
A + after a cost means that it is higher: the cost of some calls is unknown.

Examples:
  vestal conversations list
  vestal conversations list --json --limit 1000 | jq 'map(.usage.cost_usd) | add'";

/// Characters shown of how a conversation without a title begins.
const BEGINNING: usize = 60;

/// List conversations, most recently used first.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Show at most this many.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,

    /// Include conversations that subagents had.
    #[arg(short, long)]
    all: bool,

    /// Only list conversations that have not ended.
    #[arg(long)]
    running: bool,

    /// Only list conversations from this source, such as `cli`.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(
    context: &Context,
    store: Option<&ConversationStore>,
    args: ListArgs,
) -> Result<Exit, CommandFailure> {
    let filter = ConversationFilter {
        // A source of subagents asks for their conversations.
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
        context.console.note("no conversations; `vestal chat -q PROMPT` starts one");
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

fn row(summary: &ConversationSummary, now: Timestamp) -> Vec<Cell> {
    let conversation = &summary.conversation;
    let title = match &conversation.title {
        Some(title) => Cell::from(title),
        None => Cell::styled(opening_text(&summary.preview), DIM),
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
fn opening_text(preview: &str) -> String {
    let mut characters = preview.chars();
    let shown: String = characters.by_ref().take(BEGINNING).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

const SEARCH_HELP: &str = "\
A message matches if it has all the words, each at the beginning of a word; \"words in quotes\" must
be adjacent. Messages that were taken back are not searched. The exit code is 1 if nothing is found.

Examples:
  vestal conversations search build failed
  vestal conversations search '\"permission denied\"' --json | jq -r '.[].conversation'";

/// Search the messages of people, models and tools.
#[derive(Debug, Args)]
#[command(after_help = SEARCH_HELP)]
pub(super) struct SearchArgs {
    /// Words to search for.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,

    /// Show at most this many messages.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn search(
    context: &Context,
    store: Option<&ConversationStore>,
    args: &SearchArgs,
) -> Result<Exit, CommandFailure> {
    let hits = match store {
        Some(store) => {
            store.search(&SearchScope::default(), &args.words.join(" "), args.limit).await?
        }
        None => Vec::new(),
    };
    if args.json {
        print(context, &hits.iter().map(HitView::from).collect::<Vec<_>>())?;
    } else if hits.is_empty() {
        context.console.note("nothing was found");
    } else {
        let now = Timestamp::now();
        let shown: Vec<String> =
            hits.iter().map(|hit| shown_excerpt(context.console, hit, now)).collect();
        context.console.write(&shown.join("\n"))?;
    }
    Ok(if hits.is_empty() { Exit::No } else { Exit::Success })
}

fn shown_excerpt(console: Console, hit: &Hit, now: Timestamp) -> String {
    let role = match hit.role {
        MessageAuthor::User => "user",
        MessageAuthor::Assistant => "assistant",
        MessageAuthor::Tool => "tool",
    };
    let when = text::ago(hit.at, now);
    let title = text::printable(hit.title.as_deref().unwrap_or_default());
    let title = if title.is_empty() { title } else { format!("  {title}") };
    let place = console.paint(DIM, &format!("{role} #{}, {when}", hit.seq));
    let snippet: String = hit
        .snippet
        .iter()
        .map(|piece| {
            let words = text::printable(&piece.text);
            if piece.found { console.paint(BOLD, &words) } else { words }
        })
        .collect();
    format!("{}{title}  {place}\n  {snippet}\n", hit.conversation.short())
}

const SHOW_HELP: &str = "\
Examples:
  vestal conversations show k3f9ab
  vestal conversations show 'fix the build' --json | jq -r '.history[].message.role'";

/// Show the messages of a conversation.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Conversation id, a unique prefix of it, or its title.
    #[arg(value_name = "ID")]
    id: String,

    /// Show tool calls and their output in full.
    #[arg(long)]
    full: bool,

    /// Include messages that were taken back.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON object with all messages.
    #[arg(long)]
    json: bool,
}

pub(super) async fn show(
    context: &Context,
    store: Option<&ConversationStore>,
    args: &ShowArgs,
) -> Result<Exit, CommandFailure> {
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
    for stored in
        history.iter().filter(|stored| args.all || stored.standing != MessageStanding::Undone)
    {
        out.push('\n');
        out.push_str(&shown_messages(console, stored, detail));
    }
    console.write(&out)?;
    Ok(Exit::Success)
}

fn heading(console: Console, summary: &ConversationSummary, now: Timestamp) -> String {
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

fn shown_messages(console: Console, stored: &Stored, detail: Detail) -> String {
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

/// Lines shown of what a tool came to.
const TOOL_LINES: usize = 6;
/// Characters shown of a tool's arguments or of a line of its output.
const LONGEST: usize = 160;

/// How much of a conversation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Tools in a few lines.
    Short,
    /// Everything.
    Full,
}

/// Who says something, and what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Who says it.
    pub(super) speaker: String,
    /// What is said about it.
    pub(super) remark: Option<&'static str>,
    /// The words, raw: they may have control characters in them.
    pub(super) words: String,
    /// The calls of tools in it.
    pub(super) calls: Vec<String>,
}

/// Returns a message for people to read.
pub(super) fn passage(stored: &Stored, detail: Detail) -> Passage {
    let remark = match (stored.standing, stored.kind) {
        (MessageStanding::Undone, _) => Some("undone"),
        (_, MessageKind::Summary) => Some("summary of what came before"),
        (_, MessageKind::Note) => Some("put in by vestal"),
        (
            MessageStanding::Active | MessageStanding::Compacted,
            MessageKind::Dialogue | MessageKind::Aside,
        ) => None,
    };
    match &stored.message {
        Message::User(message) => {
            let parts = message.parts.iter().map(|part| match part {
                Part::Text { text } => text.clone(),
                Part::Image(image) => {
                    let size = text::bytes(image.data.len() as u64 / 4 * 3);
                    format!("[{}, {size}]", image.media_type)
                }
            });
            let words = parts.collect::<Vec<_>>().join("\n");
            Passage { speaker: "user".to_owned(), remark, words, calls: Vec::new() }
        }
        Message::Assistant(message) => Passage {
            speaker: "assistant".to_owned(),
            remark,
            words: message.text.clone(),
            calls: message.calls.iter().map(|called| call(called, detail)).collect(),
        },
        Message::Tool(result) => Passage {
            speaker: format!("tool {}", result.name),
            remark: remark.or(result.is_error.then_some("failed")),
            words: match detail {
                Detail::Full => result.content.clone(),
                Detail::Short => beginning(&result.content),
            },
            calls: Vec::new(),
        },
    }
}

fn call(call: &ToolCall, detail: Detail) -> String {
    let arguments = match detail {
        Detail::Full => call.arguments.clone(),
        Detail::Short => shortened(&call.arguments),
    };
    format!("{} {arguments}", call.name)
}

/// Returns the first lines of what a tool came to.
fn beginning(content: &str) -> String {
    let mut lines = content.lines();
    let mut shown: Vec<String> = lines.by_ref().take(TOOL_LINES).map(shortened).collect();
    let more = lines.count() as u64;
    if more > 0 {
        shown.push(format!("… {} more", text::count(more, "line")));
    }
    shown.join("\n")
}

fn shortened(line: &str) -> String {
    let mut characters = line.chars();
    let shown: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

/// Returns what a conversation cost, as far as that is known.
pub(super) fn cost(totals: &Totals) -> String {
    match (totals.calls, totals.unpriced) {
        (0, _) => "-".to_owned(),
        (calls, unpriced) if unpriced >= calls => "?".to_owned(),
        (_, 0) => format!("${:.4}", dollars(totals.micro_usd)),
        _ => format!("${:.4}+", dollars(totals.micro_usd)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_beginning_is_shown_and_the_rest_counted() {
        assert_eq!(beginning("a\nb"), "a\nb");
        assert_eq!(beginning(&"x\n".repeat(8)), format!("{}… 2 lines more", "x\n".repeat(6)));
        assert_eq!(beginning(&"é".repeat(161)), format!("{}…", "é".repeat(160)));
    }

    #[test]
    fn a_cost_says_whether_it_is_all() {
        let totals =
            |calls, micro_usd, unpriced| Totals { calls, micro_usd, unpriced, ..Totals::default() };
        assert_eq!(cost(&totals(0, 0, 0)), "-");
        assert_eq!(cost(&totals(2, 0, 2)), "?");
        assert_eq!(cost(&totals(2, 12_300, 0)), "$0.0123");
        assert_eq!(cost(&totals(2, 12_300, 1)), "$0.0123+");
    }
}
