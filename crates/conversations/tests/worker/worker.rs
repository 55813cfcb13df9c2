//! Another process that uses a store, for tests to start, race and kill.
//!
//! `conversations-worker FILE VERB [ARGUMENT]…`
//!
//! | verb | what it does |
//! |---|---|
//! | `write OWN SHARED NAME COUNT` | adds messages to both conversations in turn; says what was acknowledged |
//! | `lease ID` | takes a conversation, says `leased`, and stays until standard input closes |

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

use std::error::Error;
use std::io::{Read as _, Write as _};

use vestal_conversations::{ConversationId, ConversationStore, NewMessage};
use vestal_model::Message;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, verb, rest @ ..] = arguments.as_slice() else { return Err("no verb".into()) };
    let store = ConversationStore::open(path).await?;
    match (verb.as_str(), rest) {
        ("write", [own, shared, name, count]) => {
            write(&store, &own.parse()?, &shared.parse()?, name, count.parse()?).await?;
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
    store: &ConversationStore,
    own: &ConversationId,
    shared: &ConversationId,
    name: &str,
    count: u32,
) -> Result<(), Box<dyn Error>> {
    for number in 0..count {
        let message = || NewMessage::new(Message::user(format!("{name} {number}")));
        for (which, id) in [("own", own), ("shared", shared)] {
            for seq in store.append(id, &[message(), message()]).await? {
                say(&format!("{which} {seq} {name} {number}"))?;
            }
        }
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}
