//! Another process that uses a store, for tests to start, race and kill.
//!
//! `conversations-worker FILE VERB [ARGUMENT]…`
//!
//! | verb | what it does |
//! |---|---|
//! | `open` | opens, says `open` |
//! | `write OWN SHARED NAME COUNT` | adds messages to both conversations in turn; says what was acknowledged |
//! | `fill ID` | makes the conversation if need be, adds messages until one is refused; says how many were acknowledged, and why the last was not |
//! | `count ID` | says how many messages there are |
//! | `hold ID` | makes a conversation, says `holding`, and keeps the file open until standard input closes |
//! | `lease ID` | takes a conversation, says `leased`, and stays until standard input closes |

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

use std::error::Error;
use std::io::{Read as _, Write as _};

use vestal_conversations::{ConversationId, New, NewMessage, Store};
use vestal_model::Message;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, verb, rest @ ..] = arguments.as_slice() else { return Err("no verb".into()) };
    let store = Store::open(path).await?;
    match (verb.as_str(), rest) {
        ("open", []) => say("open")?,
        ("write", [own, shared, name, count]) => {
            write(&store, &own.parse()?, &shared.parse()?, name, count.parse()?).await?;
        }
        ("fill", [id]) => fill(&store, &id.parse()?).await?,
        ("count", [id]) => say(&store.messages(&id.parse()?).await?.len().to_string())?,
        ("hold", [id]) => {
            let new = New { id: Some(id.parse()?), ..New::default() };
            let id = store.create(new).await?.id;
            store.append(&id, &[NewMessage::said(Message::user("held"))]).await?;
            say("holding")?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
        ("lease", [id]) => {
            let lease = store.lease(&id.parse()?)?;
            say("leased")?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            drop(lease);
        }
        _ => return Err("no such verb".into()),
    }
    store.close().await?;
    Ok(())
}

async fn write(
    store: &Store,
    own: &ConversationId,
    shared: &ConversationId,
    name: &str,
    count: u32,
) -> Result<(), Box<dyn Error>> {
    for number in 0..count {
        let message = || NewMessage::said(Message::user(format!("{name} {number}")));
        for (which, id) in [("own", own), ("shared", shared)] {
            for seq in store.append(id, &[message(), message()]).await? {
                say(&format!("{which} {seq} {name} {number}"))?;
            }
        }
    }
    Ok(())
}

async fn fill(store: &Store, id: &ConversationId) -> Result<(), Box<dyn Error>> {
    if store.get(id).await.is_err() {
        store.create(New { id: Some(id.clone()), ..New::default() }).await?;
    }
    let large = NewMessage::said(Message::user("many words ".repeat(3000)));
    let mut acknowledged = 0;
    loop {
        match store.append(id, std::slice::from_ref(&large)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => {
                let kind = format!("{error:?}").replacen("Database(", "", 1);
                let kind = kind.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
                return Ok(say(&format!("{acknowledged} {kind}"))?);
            }
        }
    }
}

fn say(line: &str) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}
