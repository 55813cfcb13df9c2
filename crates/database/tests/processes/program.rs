//! Another process that uses a file, for tests to start, race and kill.
//!
//! `database-user FILE VERB [ARGUMENT]`
//!
//! | verb | what it does |
//! |---|---|
//! | `open` | opens the file, prints `open` |
//! | `write COUNT` | adds lines, a commit each; prints the number of each |
//! | `steps` | adds a line for each line of standard input; prints its number |
//! | `visit COUNT` | opens the file, begins to write, writes nothing and closes it, this many times |
//! | `fill` | adds large lines until that fails; prints how many it added, and the error |
//! | `count` | prints how many lines there are |
//! | `freeze` | begins to write, prints `writing`, and stays so until standard input closes |

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

mod lines;

use std::error::Error;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;

use lines::Lines;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&arguments))
}

async fn run(arguments: &[String]) -> Done {
    let [path, verb, rest @ ..] = arguments else { return Err("no verb".into()) };
    let path = Path::new(path);
    if let ("visit", [count]) = (verb.as_str(), rest) {
        for _ in 0..count.parse::<u32>()? {
            if let Some(mut file) = Lines::open_existing(path).await? {
                file.begin().await?;
                file.close().await?;
            }
        }
        return Ok(());
    }
    let mut file = Lines::open(path).await?;
    match (verb.as_str(), rest) {
        ("open", []) => say("open")?,
        ("write", [count]) => {
            for number in 0..count.parse::<u32>()? {
                say(&file.add(&format!("line {number}")).await?.to_string())?;
            }
        }
        ("steps", []) => {
            for line in std::io::stdin().lock().lines() {
                say(&file.add(&line?).await?.to_string())?;
            }
        }
        ("fill", []) => return fill(&mut file).await,
        ("count", []) => say(&file.numbers().await?.len().to_string())?,
        ("freeze", []) => {
            file.begin().await?;
            say("writing")?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
        _ => return Err("no such verb".into()),
    }
    Ok(file.close().await?)
}

async fn fill(file: &mut Lines) -> Done {
    let large = "many words ".repeat(3000);
    let mut added = 0;
    loop {
        match file.add(&large).await {
            Ok(_) => added += 1,
            Err(error) => {
                let kind = format!("{error:?}");
                let kind = kind.split([' ', '{', '(']).next().unwrap_or_default();
                return Ok(say(&format!("{added} {kind}"))?);
            }
        }
    }
}

fn say(line: &str) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}
