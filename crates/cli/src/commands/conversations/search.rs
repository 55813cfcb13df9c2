//! `vestal conversations search`.

use clap::Args;
use jiff::Timestamp;
use vestal_api::HitView;
use vestal_conversations::{Hit, Role, Store};

use super::print;
use crate::console::{BOLD, Console, DIM, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A message is found that has all the words, each at the beginning of a word; \"words in quotes\" stand
beside each other. What was taken back is not found. The exit code is 1 when nothing is.

Examples:
  vestal conversations search build failed
  vestal conversations search '\"permission denied\"' --json | jq -r '.[].conversation'";

/// Searches all that was said, by people, models and tools.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SearchArgs {
    /// What is looked for.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,

    /// At most so many messages.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: &SearchArgs,
) -> Result<Exit, Failure> {
    let hits = match store {
        Some(store) => store.search(&args.words.join(" "), args.limit).await?,
        None => Vec::new(),
    };
    if args.json {
        print(context, &hits.iter().map(HitView::from).collect::<Vec<_>>())?;
    } else if hits.is_empty() {
        context.console.note("nothing was found");
    } else {
        let now = Timestamp::now();
        let shown: Vec<String> = hits.iter().map(|hit| shown(context.console, hit, now)).collect();
        context.console.write(&shown.join("\n"))?;
    }
    Ok(if hits.is_empty() { Exit::No } else { Exit::Success })
}

fn shown(console: Console, hit: &Hit, now: Timestamp) -> String {
    let role = match hit.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
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
