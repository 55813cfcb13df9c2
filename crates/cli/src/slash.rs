//! What is said to the program in a conversation, and not to the model.

/// A command of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slash {
    /// `/kanban …`: what follows, by words.
    Kanban(Vec<String>),
}

/// Why a command cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unclosed(pub(crate) char);

impl Slash {
    /// Reads what somebody said; nothing where it is meant for the model.
    pub(crate) fn read(text: &str) -> Option<Result<Self, Unclosed>> {
        let rest = text.trim().strip_prefix("/kanban")?;
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return None;
        }
        Some(words(rest).map(Self::Kanban))
    }
}

/// Splits a line into words as shells do: blanks divide them, except in quotes
/// and after a backslash. Nothing is expanded.
fn words(line: &str) -> Result<Vec<String>, Unclosed> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = characters.next();
                let word = word.get_or_insert_default();
                match (quote, next) {
                    // In double quotes a backslash stands for itself before most.
                    (Some(_), Some(next)) if !"\\\"".contains(next) => {
                        word.push('\\');
                        word.push(next);
                    }
                    (_, next) => word.extend(next),
                }
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(Unclosed(open));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kanban(text: &str) -> Vec<String> {
        match Slash::read(text) {
            Some(Ok(Slash::Kanban(words))) => words,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn only_the_command_itself_is_a_command() {
        for text in ["kanban list", "what is /kanban?", "/kanbanx", "", "/", "/help"] {
            assert_eq!(Slash::read(text), None, "{text}");
        }
        assert_eq!(kanban(" /kanban \n"), [""; 0]);
        assert_eq!(kanban("/kanban list"), ["list"]);
    }

    #[test]
    fn words_are_divided_as_in_a_shell() {
        assert_eq!(
            kanban(r#"/kanban create 'Write it'  --body "a \"b\" \n" c\ d '' e"f"g"#),
            ["create", "Write it", "--body", r#"a "b" \n"#, "c d", "", "efg"]
        );
        assert_eq!(
            kanban("/kanban comment t_1 it\\'s $HOME `x`"),
            ["comment", "t_1", "it's", "$HOME", "`x`"]
        );
        assert_eq!(Slash::read("/kanban comment it's"), Some(Err(Unclosed('\''))));
    }
}
