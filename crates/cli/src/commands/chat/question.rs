//! The text and the images of a question.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use vestal_model::Image;

use crate::console::Console;
use crate::console::terminal::StdinKind;
use crate::error::CommandFailure;

/// More than any model holds.
const MOST: u64 = 16 << 20;

/// How long standard input is read before a notice says so.
const STDIN_NOTICE_AFTER: Duration = Duration::from_secs(2);

/// The word for "from standard input".
const STDIN: &str = "-";

/// Returns what is asked. Piped material goes below the question, if both are there.
pub(super) async fn read_question(
    console: Console,
    query: Option<&str>,
) -> Result<String, CommandFailure> {
    let piped = match (query, StdinKind::detect()) {
        (Some(STDIN), _) | (_, StdinKind::Data) => Some(standard_input(console).await?),
        (_, StdinKind::Terminal | StdinKind::Nothing) => None,
    };
    let prompt = join(query.filter(|query| *query != STDIN), piped.as_deref());
    if prompt.is_empty() {
        return Err(CommandFailure::usage("nothing is asked")
            .advise("say what is to be done: vestal chat -q 'what is to be done'")
            .advise("or pipe it: vestal chat < question.txt"));
    }
    Ok(prompt)
}

fn join(query: Option<&str>, piped: Option<&str>) -> String {
    let query = query.unwrap_or_default().trim();
    // Material is left as it is but for the ends: its indentation may matter.
    let piped = piped.unwrap_or_default().trim_end().trim_start_matches(['\r', '\n']);
    match (query.is_empty(), piped.trim().is_empty()) {
        (false, false) => format!("{query}\n\n{piped}"),
        (false, true) => query.to_owned(),
        (true, _) => piped.trim().to_owned(),
    }
}

/// Reads standard input to its end. Where that never comes, it is at least said
/// what is waited for.
async fn standard_input(console: Console) -> Result<String, CommandFailure> {
    let mut reading = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let read = match tokio::time::timeout(STDIN_NOTICE_AFTER, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            console.note("reading standard input to its end; to give none: < /dev/null");
            reading.await
        }
    };
    let failed = |error: &io::Error| CommandFailure::io("read standard input", error);
    let bytes = read.map_err(|error| failed(&io::Error::other(error)))?;
    let bytes = bytes.map_err(|error| failed(&error))?;
    if bytes.len() as u64 > MOST {
        return Err(CommandFailure::usage(format!(
            "standard input is longer than {} MiB, which no model can read",
            MOST >> 20
        ))
        .advise("copy it into the sandbox with `vestal cp` and ask about the file"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            console.note("standard input is not all text; other bytes were replaced");
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
    }
}

/// Reads a picture, whose kind its content tells, whatever it is called.
pub(super) fn read_image(path: &Path) -> Result<Image, CommandFailure> {
    // Before it is opened: opening a pipe would wait for a writer.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(CommandFailure::usage(format!("the image {} is not a file", path.display())));
    }
    match vestal_chat::attachments::read_image(path) {
        Ok((image, _)) => Ok(image),
        Err(trouble) => {
            let failure = CommandFailure::usage(trouble.problem);
            Err(trouble.advice.into_iter().fold(failure, CommandFailure::advise))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn material_stands_below_the_question() {
        assert_eq!(join(Some(" why? "), Some("\n  a\n  b\n\n")), "why?\n\n  a\n  b");
        assert_eq!(join(Some("why?"), Some(" \n")), "why?");
        assert_eq!(join(None, Some("\n why?\n")), "why?");
        assert_eq!(join(Some(" "), None), "");
    }
}
