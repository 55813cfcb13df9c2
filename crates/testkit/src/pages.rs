//! Examples of the documentation, which tests run as they stand there.

/// Stands before an example that can be run.
const MARK: &str = "<!-- run -->";

/// An example of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageExample {
    /// The word behind its fence, such as `sh` or `console`.
    pub language: String,
    /// What stands between the fences.
    pub text: String,
}

/// A command of an example in `console`, and what the page says that it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleCommand {
    /// What is typed behind `$`; of more than one line where lines end with a backslash.
    pub typed: String,
    /// What is printed.
    pub printed: Vec<String>,
}

/// Returns the examples of a page that stand below the mark `<!-- run -->`.
pub fn marked_examples(page: &str) -> Vec<PageExample> {
    let example = |text: &str| {
        let text = text.trim_start().strip_prefix("```").unwrap_or_else(|| {
            panic!("no fence after the mark: {}", text.lines().next().unwrap_or_default())
        });
        let (language, rest) = text.split_once('\n').unwrap();
        let (body, _) = rest.split_once("\n```").unwrap();
        PageExample { language: language.to_owned(), text: body.to_owned() }
    };
    page.split(MARK).skip(1).map(example).collect()
}

/// Returns the commands of an example in `console`.
pub fn console_commands(text: &str) -> Vec<ConsoleCommand> {
    let mut commands: Vec<ConsoleCommand> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => {
                commands.push(ConsoleCommand { typed: typed.to_owned(), printed: Vec::new() });
            }
            (None, Some(last)) if last.printed.is_empty() && last.typed.ends_with('\\') => {
                last.typed.push('\n');
                last.typed.push_str(line);
            }
            (None, Some(last)) => last.printed.push(line.to_owned()),
            (None, None) => panic!("output without a command: {line}"),
        }
    }
    commands
}

impl ConsoleCommand {
    /// Reports whether a command printed what the page says: each of its lines, in this order. `…`
    /// stands for anything, runs of blanks count as one, and further lines may be printed between.
    pub fn is_answered_by(&self, output: &str) -> bool {
        let mut lines = output.lines();
        let wanted = self.printed.iter().filter(|line| line.trim() != "…");
        wanted.into_iter().all(|wanted| lines.any(|line| is_like(wanted, line)))
    }
}

/// Reports whether a line is as a pattern with `…` says.
fn is_like(pattern: &str, line: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, line) = (plain(pattern), plain(line));
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_those_below_the_mark() {
        let page = "```sh\nno\n```\n<!-- run -->\n```console\n$ a \\\n  b\none …\n$ c\n```\n";
        let found = marked_examples(page);
        let text = "$ a \\\n  b\none …\n$ c".to_owned();
        assert_eq!(found, [PageExample { language: "console".to_owned(), text }]);
        let commands = console_commands(&found[0].text);
        let typed: Vec<&str> = commands.iter().map(|command| command.typed.as_str()).collect();
        assert_eq!(typed, ["a \\\n  b", "c"]);
        assert_eq!(commands[0].printed, ["one …"]);
    }

    #[test]
    fn output_is_compared_line_by_line_with_room_for_anything() {
        let command = |printed: &[&str]| ConsoleCommand {
            typed: String::new(),
            printed: printed.iter().map(|&line| line.to_owned()).collect(),
        };
        assert!(command(&[]).is_answered_by("anything"));
        assert!(command(&["a  b", "…", "c … e"]).is_answered_by("x\na b\ny\nc d e\n"));
        assert!(command(&["…m…"]).is_answered_by("amb"));
        for (wanted, output) in [("a", "ab"), ("a…", "ba"), ("…b", "bc"), ("a…b…", "a")] {
            assert!(!command(&[wanted]).is_answered_by(output), "{wanted}: {output}");
        }
        assert!(!command(&["a", "b"]).is_answered_by("b\na\n"), "in the order of the page");
    }
}
